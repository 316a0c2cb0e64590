const CODES = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 } as const;
export type Style = keyof typeof CODES;

/** The text must be printable. */
export function paint(text: string, style: Style | undefined, colors: boolean): string {
  return style === undefined || !colors ? text : `\u001b[${CODES[style]}m${text}\u001b[0m`;
}
