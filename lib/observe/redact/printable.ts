/** Control characters (C0, DEL, C1), ends of lines and paragraphs, and what turns the direction of writing. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\p{Bidi_Control}]/gu;

/** A key or a topic may hold what a terminal obeys: nothing of it may end a line, move the cursor or turn the text. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

export function isPrintable(text: string): boolean {
  return text.search(UNPRINTABLE) === -1;
}

function escaped(sign: string): string {
  return `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
