import { createInterface } from 'node:readline';
import { EXIT, type ExitCode } from './exit-code.js';
import type { Terminal } from './terminal.js';

/** The terminal of a process, and its end. */
export interface ProcessTerminal extends Terminal {
  withoutColors(): void;
  onInterrupt(listener: () => void): void;
  /** Ends the process once what was printed is written. */
  end(code: ExitCode): void;
}

const NARROWEST = 40;
/** Back to the first column, and nothing right of it. */
const ERASE = '\r\u001b[K';

export function processTerminal(of: NodeJS.Process): ProcessTerminal {
  const { stdin, stderr } = of;
  const write = of.stdout.write.bind(of.stdout);
  // An application that is loaded may print: on stderr, as stdout is for the result.
  of.stdout.write = stderr.write.bind(stderr) as typeof of.stdout.write;
  const written = (error?: NodeJS.ErrnoException | null): void => {
    if (error === undefined || error === null) return;
    // A reader that has seen enough, such as `head`, is no failure. A file that takes no more is one.
    if (error.code === 'EPIPE') of.exit(EXIT.ok);
    stderr.write(`nestjs-outbox: The result could not be written: ${error.code ?? error.message}.\n`);
    of.exit(EXIT.failed);
  };
  of.stdout.on('error', written);
  stderr.on('error', () => {}); // nobody reads the words: the work goes on
  let colors = of.stdout.isTTY && of.stdout.hasColors() && !isSet(of.env['NO_COLOR']) && of.env['TERM'] !== 'dumb';
  let line = '';
  const say = (text: string): void => {
    stderr.write(`${line === '' ? '' : ERASE}${text}\n${line}`);
  };
  return {
    isInteractive: stdin.isTTY && stderr.isTTY,
    get width() {
      return of.stdout.isTTY ? Math.max(NARROWEST, of.stdout.columns || 80) : Infinity;
    },
    get colors() {
      return colors;
    },
    withoutColors: () => void (colors = false),
    out: (text) => void write(`${text}\n`, written),
    say,
    progress(text) {
      if (!stderr.isTTY || (text === '' && line === '')) return;
      line = text.slice(0, Math.max(NARROWEST, stderr.columns || 80) - 1);
      stderr.write(`${ERASE}${line}`);
    },
    clear: () => void (of.stdout.isTTY && write('\u001b[2J\u001b[H')),
    ask: (question) => ask(of, question),
    onInterrupt: (listener) => void of.on('SIGINT', listener),
    end: (code) => void write('', () => stderr.write(line === '' ? '' : ERASE, () => of.exit(code))),
  };
}

const isSet = (value: string | undefined): boolean => value !== undefined && value !== '';

function ask({ stdin, stderr }: NodeJS.Process, question: string): Promise<string | undefined> {
  const lines = createInterface({ input: stdin, output: stderr, terminal: false });
  stderr.write(question);
  return new Promise((resolve) => {
    lines.once('line', resolve).once('close', () => resolve(undefined));
  }).finally(() => lines.close()) as Promise<string | undefined>;
}
