import { CANARY } from '../../security/canaries.js';

/** A database server of our own, with the tables of the harness, and what can be done to it. */
export interface DatabaseServer {
  readonly port: number;
  readonly version: string;
  /** As this user: each relay has one of its own, so that its connections can be told from the others'. */
  url(user: string, port?: number): string;
  /** By a session of the harness, which never goes through a proxy. Columns by their position. */
  query(sql: string): Promise<(string | null)[][]>;
  /** Once, when the outbox's tables are there. */
  watchLeases(): Promise<void>;
  /** At once, as when its machine loses power. */
  kill(): Promise<void>;
  start(): Promise<void>;
  readOnly(on: boolean): Promise<void>;
  /** A session of the harness holds a snapshot, until it is told otherwise: what is deleted meanwhile stays for it. */
  holdSnapshot(on: boolean): Promise<void>;
  /** The numbers of messages go on far below all that were given out, where none ever was; if the server does that. */
  readonly numbersBack?: (() => Promise<void>) | undefined;
  /** TRUNCATE of `outbox_ready`. @returns of each row that was in it: transport, and the first bytes of the payload */
  emptyReady(): Promise<(string | null)[][]>;
  /** Rows of this bucket wait, with the numbers that they have, until it is told otherwise; if numbers come before rows. */
  readonly holdInserts?: ((place: Place | undefined) => Promise<void>) | undefined;
  /** The leases of this owner, who is dead, and his last word end tomorrow. */
  leaseAhead(owner: string): Promise<void>;
  /** Ends the sessions of this user. */
  terminate(user: string): Promise<void>;
  /** Of one that has a replica. */
  readonly failover?: Failover;
  remove(): Promise<void>;
}

export interface Place {
  readonly transport: number;
  readonly bucket: number;
}

/** An asynchronous replica that takes the primary's place: what it did not get is lost. */
export interface Failover {
  /** Resolves when it has all that was committed at the time of the call. */
  catchUp(): Promise<void>;
  /** It gets nothing more. */
  part(): void;
  /** The primary is gone for good; resolves when the replica is the primary, and clients find it where the other one was. */
  failOver(): Promise<void>;
  /** The one that is gone comes back as the other one's replica, without anything of its own. */
  follow(): Promise<void>;
}

/** Of all users of the library; who is asked for it is the server's choice, and who tells it is ours. */
export const PASSWORD = CANARY.databasePassword;
export const USERS = ['writer', 'relay1', 'relay2', 'relay3', 'relay4'] as const;

/** Rows of one page of {@link pages}. */
const PAGE = 20_000;

/** The truth, in the order of its key, page by page: memory stays small whatever was committed. */
export async function* pages(database: DatabaseServer): AsyncGenerator<(string | null)[][]> {
  let [writer, n] = ['0', '0'];
  for (;;) {
    const page = await database.query(
      `select writer, n, began, messages from truth where (writer, n) > (${writer}, ${n}) order by writer, n limit ${PAGE}`,
    );
    if (page.length === 0) return;
    yield page;
    [writer, n] = page.at(-1) as [string, string];
  }
}
