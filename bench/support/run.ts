import { setTimeout as delay } from 'node:timers/promises';
import { machine, smoke } from './measure.js';

/** What a benchmark opened, closed in reverse order: at its end, after an error, and on Ctrl-C. */
export class Closing {
  /** @internal */ readonly open: (() => unknown)[] = [];

  add(close: () => unknown): void {
    this.open.push(close);
  }

  /** Each gets ten seconds; what fails must not keep the rest from being closed. */
  async all(): Promise<void> {
    for (let close = this.open.pop(); close !== undefined; close = this.open.pop()) {
      const closed = Promise.resolve().then(close);
      await Promise.race([closed, delay(10_000, undefined, { ref: false })]).catch((error: unknown) =>
        console.error(error),
      );
    }
  }
}

/** Runs one benchmark. The last line of its output is its result, as one JSON object. */
export function bench(name: string, work: (closing: Closing) => Promise<Record<string, unknown>>): void {
  const closing = new Closing();
  let ending: Promise<void> | undefined;
  const end = (code: number, result?: object): Promise<void> =>
    (ending ??= closing.all().then(() => {
      if (result !== undefined) console.log(JSON.stringify(result));
      process.exit(code);
    }));
  const fail = (error: unknown): void => {
    if (ending === undefined) console.error(error); // closing what is in use fails what uses it
    void end(1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void end(130));
  process.on('uncaughtException', fail);
  work(closing).then(
    (result) => end(0, { bench: name, ...smoke({}, { smoke: true }), ...result, machine: machine() }),
    fail,
  );
}
