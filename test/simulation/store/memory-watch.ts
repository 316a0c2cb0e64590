import type { LeaseRow, ParkedRow, ReadyRow } from './memory-rows.js';

/** Sees every write of the relay at the moment when it takes effect. */
export interface MemoryWatch {
  /** Shown to somebody who may publish them: fetched, or taken from the parked table. */
  read(rows: readonly (ReadyRow | ParkedRow)[]): void;
  leased(row: LeaseRow, before: Readonly<LeaseRow>): void;
  /** Somebody has other connections, and begins to read anew. */
  reconnected(): void;
  /** Success: it left the outbox. */
  settled(row: ReadyRow): void;
  /** Whoever wrote that these left was told that it is written. */
  heard(messages: readonly { readonly id: string }[]): void;
  /** Moved out of the ready table; `before` is the same row there. */
  parked(row: ParkedRow): void;
  reparked(row: ParkedRow, attemptsBefore: number): void;
  /** A scheduled message fell due, and stands behind these. */
  joined(row: ParkedRow, behind: readonly ParkedRow[]): void;
  requeued(row: ParkedRow): void;
  removed(row: ReadyRow): void;
}
