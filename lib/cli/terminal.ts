import { printable } from '../observe/redact/printable.js';

/** Where the command prints. Results go to stdout, words for people to stderr. */
export interface Terminal {
  /** Somebody can answer: stdin and stderr are terminals. */
  readonly isInteractive: boolean;
  /** Columns of stdout; Infinity where it is no terminal, so that nothing is cut. */
  readonly width: number;
  readonly colors: boolean;
  /** One line on stdout, with escapes of our own at most: what others wrote went through {@link printable}. */
  out(line: string): void;
  /** One line on stderr. */
  say(line: string): void;
  /** A line on stderr that the next one replaces; nothing where stderr is no terminal. Empty: removes it. */
  progress(text: string): void;
  /** Clears the screen before the next picture of `--watch`. */
  clear(): void;
  /** One line of what the person types; `undefined`: the input ended. */
  ask(question: string): Promise<string | undefined>;
}

/** What others wrote, as JSON on one line: valid, and nothing in it that a terminal obeys. */
export const jsonLine = (value: unknown): string => printable(JSON.stringify(value));
