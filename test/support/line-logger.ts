import type { LoggerService } from '@nestjs/common';

/** Every line, as a text logger would print it. */
export class LineLogger implements LoggerService {
  readonly lines: string[] = [];
  readonly entries: { level: string; line: Record<string, unknown> }[] = [];
  readonly debug = (line: unknown): void => this.keep('debug', line);
  readonly log = (line: unknown): void => this.keep('log', line);
  readonly warn = (line: unknown): void => this.keep('warn', line);
  readonly error = (line: unknown): void => this.keep('error', line);

  keep(level: string, line: unknown): void {
    this.entries.push({ level, line: line as Record<string, unknown> });
    this.lines.push(`${level} ${String(line)}`);
  }
}
