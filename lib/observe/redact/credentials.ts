/** Also as a part: `accessToken`, `DB_PASSWORD`, `x-api-key`. */
const PART = /passw(?:or)?d|passphrase|pwd|secret|token|api[-_]?key|authorization|credential|cookie|signature/i;
/** At the end of a word only: not every `key`, of which an error of a broker or a table speaks, and no `passive`. */
const END = /(?:^|[-_])(?:pass|pw|sig)$|(?:private|access|account|master|signing|ssl)[-_]?key$/i;
const END_OF_CAMEL_CASE = /[a-z](?:Pass|Pw|Sig)$/;

/** What stands between a name and its value, also in JSON that is a text of JSON. */
const SIGN = String.raw`(?<sign>\\*["']?\s*[=:]>?\s*)`;
/** Up to its own quote, or to the end where the text was cut. */
const QUOTED = String.raw`"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?`;
const BARE = String.raw`[^\s,;&)}]+`;
const VALUE = String.raw`(?:${QUOTED}|(?<open>\\+["'])[^]*?(?:(?<!\\)\k<open>|$)|${BARE})`;

// Nothing that can fail follows a value, so that no text is read again and again.
const ASSIGNED = new RegExp(String.raw`${SIGN}(?:(?:bearer|basic|token|apikey)[ \t]+)?${VALUE}`, 'iy');
/** With any scheme, and with the parameters that some have. */
const AUTHORIZATION = new RegExp(
  String.raw`${SIGN}(?:[\w-]+[ \t]+)?(?:[\w-]+=)?${VALUE}(?:\s*,\s*[\w-]+=(?:${QUOTED}|${BARE}))*`,
  'iy',
);

/** To the end of the line: its parts have names of their own. */
const COOKIES = new RegExp(String.raw`${SIGN}(?:[^\s=,;&)}"'\\]+=[^\r\n]*|${VALUE})`, 'iy');

/**
 * Puts `***` for what follows the name of a credential. Word by word: a pattern that searches for a name inside a word
 * looks from each letter to the end.
 */
export function withoutCredentials(text: string): string {
  let shown = '';
  let from = 0;
  for (const { 0: word, index } of text.matchAll(/[\w-]+/g)) {
    if (index < from || !isName(word)) continue;
    const end = index + word.length;
    const pattern = patternAfter(word);
    pattern.lastIndex = end;
    const found = pattern.exec(text);
    if (found === null) continue;
    shown += `${text.slice(from, end)}${found.groups?.['sign'] ?? ''}***`;
    from = pattern.lastIndex;
  }
  return shown + text.slice(from);
}

function isName(word: string): boolean {
  return PART.test(word) || END.test(word) || END_OF_CAMEL_CASE.test(word);
}

function patternAfter(word: string): RegExp {
  if (/authorization/i.test(word)) return AUTHORIZATION;
  return /cookie$/i.test(word) ? COOKIES : ASSIGNED;
}

/** A block of PEM, also one that was cut. */
const PEM = /-----BEGIN [^-]{1,40}-----[^]*?(?:-----END [^-]{1,40}-----|$)/g;
const SCHEME = /(\b[a-z][a-z0-9+.-]{1,20}:\/\/)/i;
/** At the start of a word only, so that no word is read again and again. */
const JWT = /(?<![\w-])eyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?/g;
const PORT = /[\w.-]+:\d/y;

/** Puts `***` for what is known by its shape: users of URLs and of `user:password@host:port`, blocks of PEM, JWTs. */
export function withoutShapes(text: string): string {
  return text.replace(PEM, '***').replace(/\S+/g, withoutUser).replace(JWT, '***');
}

/** Up to the last `@` before the next URL: a password may hold `/`, `?`, `#` and `@`. */
function withoutUrlUser(part: string, index: number): string {
  const at = part.lastIndexOf('@');
  return index === 0 || at === -1 ? part : `***${part.slice(at)}`;
}

function withoutUser(word: string): string {
  const at = word.lastIndexOf('@');
  const colon = word.indexOf(':');
  if (colon === -1 || colon > at) return word;
  if (word.includes('://')) return word.split(SCHEME).map(withoutUrlUser).join('');
  PORT.lastIndex = at + 1;
  if (!PORT.test(word)) return word;
  const before = /^.*["'=,;(]/.exec(word.slice(0, colon))?.[0] ?? '';
  return `${before}***${word.slice(at)}`;
}
