/** SEAM: what an operator deletes for good. `OutboxStore` says what holds for all roles. */

/** All given conditions must hold. */
export interface PurgeFilter {
  readonly ids?: readonly string[];
  readonly transport?: number;
  readonly key?: string;
  readonly topic?: string;
  readonly type?: string;
}
export interface PurgeRequest extends PurgeFilter {
  /** What was published no later, by the database's clock. */
  readonly until: Date;
  /** {@link PurgePage.next} of the page before; `null`: from the beginning. */
  readonly after: string | null;
  readonly limit: number;
}
/** What names an archived row; its content is the store's business. */
export type PurgeRow = readonly string[];
export interface PurgePage {
  readonly rows: readonly PurgeRow[];
  /** `null`: that was the last page. A page looks at a bounded number of rows: it may have none, and not be the last one. */
  readonly next: string | null;
  /** When the last row of the page was published; `null`: the page is empty. */
  readonly at: Date | null;
}

export interface PurgeStore {
  /** Archived rows in the order in which they were published. Only reads. */
  archived(request: PurgeRequest): Promise<PurgePage>;
  /**
   * Deletes archived rows, in one transaction with the counts of the audit row.
   * @returns how many; `undefined`: the action has ended, and nothing was deleted
   */
  remove(audit: string, rows: readonly PurgeRow[]): Promise<number | undefined>;
  /** The same for what messages were before these edits. That they were edited stays. */
  forget(audit: string, edits: readonly string[]): Promise<number | undefined>;
}
