/** Bytes that count as quoted. Below that, words and numbers of any text are the same by accident. */
const SHORTEST = 8;
/** Bytes that are compared at first. So many and no more of each eight begin at a place that is looked at. */
const GRAM = 4;
const STRIDE = SHORTEST - GRAM + 1;
const BITS = 20;
/** Comparisons of all bodies together, each of them some hundred nanoseconds. A text that needs more is hidden as a whole. */
const MOST_COMPARED = 100_000;
/** Between two quoted pieces: what an escape or a rounding has changed. */
const GAP = 16;

/** A payload too large to be taken apart, and the names of its message, which may be told. */
export interface LargeBody {
  readonly body: string | Uint8Array;
  readonly names: readonly (string | null)[];
}

/**
 * Puts `***` where the text has eight bytes or more in common with one of the bodies, as they stand or as JSON writes them,
 * up to the ends of their words. One pass over a body, of which it keeps nothing.
 */
export function maskShared(text: string, bodies: readonly LargeBody[]): string {
  const grams = new Grams(text);
  for (const { body } of bodies) grams.find(typeof body === 'string' ? Buffer.from(body) : body);
  const { marks } = grams;
  if (!marks.includes(1)) return text;
  const names = bodies.flatMap((one) => one.names).filter((name) => name !== null);
  for (const name of names) unmark(text, marks, name);
  widen(text, marks);
  for (const name of names) unmark(text, marks, name);
  let masked = '';
  for (let at = 0; at < text.length; at += 1) {
    if (marks[at] === 0) masked += text[at];
    else if (at === 0 || marks[at - 1] === 0) masked += '***';
  }
  return masked;
}

/** A form of the text as bytes, and which character of the text each byte is of. */
interface Form {
  readonly bytes: Uint8Array;
  readonly places: Uint32Array;
}

class Grams {
  /** By character of the text. */
  readonly marks: Uint8Array;
  /** @internal */ readonly filter = new Uint8Array(1 << BITS);
  /** @internal */ readonly found = new Map<number, { form: Form; at: number }[]>();
  /** @internal */ left = MOST_COMPARED;

  constructor(text: string) {
    this.marks = new Uint8Array(text.length);
    for (const form of [formOf(text, (char) => char), formOf(text, escaped), formOf(text, ascii), onceLess(text)]) {
      for (let at = 0; at + GRAM <= form.bytes.length; at += 1) {
        const gram = gramOf(form.bytes, at);
        this.filter[slotOf(gram)] = 1;
        const same = this.found.get(gram);
        if (same === undefined) this.found.set(gram, [{ form, at }]);
        else same.push({ form, at });
      }
    }
  }

  find(body: Uint8Array): void {
    const { filter } = this;
    const end = body.length - GRAM;
    for (let at = 0; at <= end; at += STRIDE) {
      const gram = gramOf(body, at);
      if (filter[slotOf(gram)] === 1 && !this.compare(gram, body, at)) return;
    }
  }

  /** @internal @returns whether there is time for more */
  compare(gram: number, body: Uint8Array, start: number): boolean {
    for (const { form, at } of this.found.get(gram) ?? []) {
      if (this.marks[form.places[at]!] === 1) continue;
      this.left -= 1;
      if (this.left < 0) {
        this.marks.fill(1);
        return false;
      }
      let [before, behind] = [0, GRAM];
      while (before < at && form.bytes[at - before - 1] === body[start - before - 1]) before += 1;
      while (at + behind < form.bytes.length && form.bytes[at + behind] === body[start + behind]) behind += 1;
      if (before + behind < SHORTEST) continue;
      for (let n = at - before; n < at + behind; n += 1) this.marks[form.places[n]!] = 1;
    }
    return true;
  }
}

function gramOf(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}

function slotOf(gram: number): number {
  return Math.imul(gram, 0x9e3779b1) >>> (32 - BITS);
}

function formOf(text: string, write: (char: string) => string): Form {
  const bytes: number[] = [];
  const places: number[] = [];
  let place = 0;
  for (const char of text) {
    for (const byte of Buffer.from(write(char))) {
      bytes.push(byte);
      places.push(place);
    }
    place += char.length;
  }
  return { bytes: Uint8Array.from(bytes), places: Uint32Array.from(places) };
}

/** JSON in JSON, as the inner one was written. */
function onceLess(text: string): Form {
  let slash = false;
  return formOf(text, (char) => {
    slash = char === '\\' && !slash;
    return slash ? '' : char;
  });
}

const escaped = (char: string): string => JSON.stringify(char).slice(1, -1);

/** As JSON is written where nothing but ASCII may stand. */
function ascii(char: string): string {
  if (char <= '~') return escaped(char);
  return Array.from({ length: char.length }, (_, n) => `\\u${char.charCodeAt(n).toString(16).padStart(4, '0')}`).join(
    '',
  );
}

/** Over short gaps, and to the ends of words. */
function widen(text: string, marks: Uint8Array): void {
  const isWord = (at: number): boolean => /[^\s"'`,;:<>()[\]{}=&|\0]/.test(text[at]!);
  for (let at = 1; at < text.length; at += 1) if (marks[at - 1] === 1 && isWord(at)) marks[at] = 1;
  for (let at = text.length - 2; at >= 0; at -= 1) if (marks[at + 1] === 1 && isWord(at)) marks[at] = 1;
  let last = -Infinity;
  for (let at = 0; at < text.length; at += 1) {
    if (marks[at] === 0) continue;
    if (at - last <= GAP) marks.fill(1, last, at);
    last = at;
  }
}

function unmark(text: string, marks: Uint8Array, name: string): void {
  if (name.length < SHORTEST) return;
  for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + name.length))
    marks.fill(0, at, at + name.length);
}
