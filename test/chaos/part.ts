import { closeSync, openSync, writeSync } from 'node:fs';

/** How much of what it knows a killed process may take with it. */
const FLUSH_EVERY = 50;

/** One process's part of the history: whole lines, appended in one write each time, so that a kill never tears one. */
export class Part {
  private readonly file: number;
  private lines: string[] = [];
  private readonly timer: NodeJS.Timeout;

  constructor(
    path: string,
    private readonly beforeFlush: () => void = () => undefined,
  ) {
    this.file = openSync(path, 'a');
    this.timer = setInterval(() => this.flush(), FLUSH_EVERY).unref();
  }

  add(line: readonly unknown[]): void {
    this.lines.push(JSON.stringify(line));
  }

  flush(): void {
    this.beforeFlush();
    if (this.lines.length === 0) return;
    writeSync(this.file, `${this.lines.join('\n')}\n`);
    this.lines = [];
  }

  close(): void {
    clearInterval(this.timer);
    this.flush();
    closeSync(this.file);
  }
}
