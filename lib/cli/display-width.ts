/** Signs that take two columns of a terminal: East Asian ones and pictures. */
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
/** Signs that stand on the one before. */
const NONE = /[\p{Mn}\p{Me}\p{Cf}]/u;

/** Columns that a text without escapes takes. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const sign of text) width += widthOf(sign);
  return width;
}

/** Cut at its end, with `…`, to so many columns. */
export function fit(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let [kept, left] = ['', width - 1];
  for (const sign of text) {
    left -= widthOf(sign);
    if (left < 0) break;
    kept += sign;
  }
  return `${kept}…`;
}

function widthOf(sign: string): number {
  if (sign >= ' ' && sign <= '~') return 1;
  return NONE.test(sign) ? 0 : WIDE.test(sign) ? 2 : 1;
}
