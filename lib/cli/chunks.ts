import type { CliContext } from './command.js';
import type { OpenOutbox } from './connect/open-outbox.js';
import { number } from './words.js';

/** What became of the chunks. */
export interface ChunksReport {
  readonly done: number;
  /** Ctrl-C ended it before all was done. */
  readonly interrupted: boolean;
}

/** Rows that one call changes: it is one transaction, and Ctrl-C waits for it. */
export const CHUNK = 1_000;

/**
 * Does work chunk by chunk, until a chunk finds nothing more, or Ctrl-C. What is done stays done: the same command goes on there.
 * @param step changes that many at most. @returns how many it changed, and whether there may be more
 */
export async function inChunks(
  { interrupt, terminal }: Pick<CliContext, 'interrupt' | 'terminal'>,
  { most, verb }: { readonly most: number; readonly verb: string },
  step: (size: number) => Promise<{ readonly changed: number; readonly more: boolean }>,
): Promise<ChunksReport> {
  const work = interrupt.holding(async () => {
    let done = 0;
    for (let more = true; more && done < most;) {
      if (interrupt.isAsked) return { done, interrupted: true };
      const result = await step(Math.min(CHUNK, most - done));
      done += result.changed;
      more = result.more;
      terminal.progress(`${verb} ${number(done)}${most === Infinity ? '' : ` of ${number(most)}`}`);
    }
    return { done, interrupted: false };
  });
  return work.finally(() => terminal.progress(''));
}

/**
 * Work of the library that tells of each of its chunks, which must come in time. Ctrl-C ends it behind one.
 * @param begin calls `heard` for each chunk
 */
export async function whileHeard<T>(
  { interrupt, terminal }: Pick<CliContext, 'interrupt' | 'terminal'>,
  { answer }: Pick<OpenOutbox, 'answer'>,
  begin: (signal: AbortSignal, heard: (line: string) => void) => Promise<T>,
): Promise<T> {
  const end = new AbortController();
  let next = (): void => undefined;
  const heard = (line: string): void => {
    terminal.progress(line);
    next();
  };
  const work = async (): Promise<T> => {
    const run = begin(AbortSignal.any([end.signal, interrupt.signal]), heard);
    for (let isOver = false; !isOver;) {
      const chunk = new Promise<boolean>((resolve) => (next = () => resolve(false)));
      isOver = await answer(Promise.race([run.then(() => true), chunk]));
    }
    return run;
  };
  return interrupt.holding(work).finally(() => {
    end.abort(); // of one that nobody waits for any more
    terminal.progress('');
  });
}
