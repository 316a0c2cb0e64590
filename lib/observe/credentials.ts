/** Also as a part: `accessToken`, `DB_PASSWORD`, `x-api-key`. */
const NAME = /passw(?:or)?d|pwd|secret|token|api[-_]?key|authorization/i;
/** What stands between a name and its value, also in JSON that is a text of JSON. */
const SIGN = String.raw`(?<sign>\\*["']?\s*[=:]\s*)`;
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

/**
 * Puts `***` for what follows the name of a credential. Word by word: a pattern that searches for a name inside a word
 * looks from each letter to the end.
 */
export function withoutCredentials(text: string): string {
  let shown = '';
  let from = 0;
  for (const { 0: word, index } of text.matchAll(/[\w-]+/g)) {
    if (index < from || !NAME.test(word)) continue;
    const end = index + word.length;
    const pattern = /authorization/i.test(word) ? AUTHORIZATION : ASSIGNED;
    pattern.lastIndex = end;
    const found = pattern.exec(text);
    if (found === null) continue;
    shown += `${text.slice(from, end)}${found.groups?.['sign'] ?? ''}***`;
    from = pattern.lastIndex;
  }
  return shown + text.slice(from);
}
