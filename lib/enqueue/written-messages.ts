import type { Entry } from './transaction-listener.js';

interface Savepoint {
  readonly name: string;
  /** How many entries were written before it. */
  readonly after: number;
}

/** What was written in one transaction, in that order, and the savepoints among it. */
export class WrittenMessages {
  /** @internal */ entries: Entry[] = [];
  /** @internal */ savepoints: Savepoint[] = [];

  get isEmpty(): boolean {
    return this.entries.length === 0;
  }

  add(entry: Entry): void {
    this.entries.push(entry);
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
    return this.entries.splice(after);
  }

  /** Everything, for the end of the transaction; the next one begins with nothing. */
  take(): Entry[] {
    const { entries } = this;
    this.entries = [];
    this.savepoints = [];
    return entries;
  }

  /** @internal */ indexOf(name: string): number {
    return this.savepoints.findLastIndex((savepoint) => savepoint.name === name);
  }
}
