import type { Entry, TransactionListener } from './after-commit.js';

interface Savepoint {
  readonly name: string;
  /** How many entries were written before it. */
  readonly after: number;
}

const NOBODY: TransactionListener = { committed: () => undefined, rolledBack: () => undefined };

/** What was written in one transaction, in that order, and the savepoints among it. */
export class WrittenMessages {
  entries: Entry[] = [];
  savepoints: Savepoint[] = [];
  /** In the place of what an enqueue wrote that failed, perhaps nothing, or what its writer gave up: until it is taken back, nobody may commit. */
  spoilt: { readonly entry: Entry; readonly cause: unknown } | undefined;

  get isEmpty(): boolean {
    return this.entries.length === 0;
  }

  get unfinished(): Error | undefined {
    return this.entries.find(({ listener }) => listener.unfinished !== undefined)?.listener.unfinished?.();
  }

  /**
   * The first one stays: what takes it back takes the later ones.
   * @param writer spoils what was written for it; without it, what is written now
   */
  spoil(cause: unknown, writer?: TransactionListener): void {
    const at = this.entries.findIndex(({ listener }) => listener === writer);
    const entry = this.entries[at] ?? { listener: NOBODY, ids: [] };
    if (this.spoilt !== undefined && (at === -1 || at > this.entries.indexOf(this.spoilt.entry))) return;
    if (at === -1) this.entries.push(entry);
    this.spoilt = { entry, cause };
  }

  /** Behind SAVEPOINT. One of the same name stays, and is there again when this one is released. */
  saved(name: string): void {
    this.savepoints.push({ name, after: this.entries.length });
  }

  /** Behind RELEASE: those that were made since are gone with it, and what was written goes with the one around. */
  released(name: string): void {
    const at = this.indexOf(name);
    if (at !== -1) this.savepoints.length = at;
  }

  /**
   * Behind ROLLBACK TO, which leaves the savepoint itself.
   * @returns what is taken back; of a savepoint that was made before we heard of the transaction: all
   */
  wentBack(name: string): Entry[] {
    const at = this.indexOf(name);
    const after = this.savepoints[at]?.after ?? 0;
    this.savepoints.length = at + 1;
    const back = this.entries.splice(after);
    if (this.spoilt !== undefined && back.includes(this.spoilt.entry)) this.spoilt = undefined;
    return back;
  }

  /** Everything, for the end of the transaction; the next one begins with nothing. */
  take(): Entry[] {
    const { entries } = this;
    this.entries = [];
    this.savepoints = [];
    this.spoilt = undefined;
    return entries;
  }

  indexOf(name: string): number {
    return this.savepoints.findLastIndex((savepoint) => savepoint.name === name);
  }
}
