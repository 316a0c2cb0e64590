/**
 * SEAM: what the doctor, the metrics and the relay ask a database about itself and about the tables. Only reads; each question is
 * asked by itself, and one that fails or lacks a right says nothing about the others. `OutboxStore` says what holds for all roles.
 */
export interface DiagnoseStore {
  /** `undefined`: this server has no such thing. */
  ask<Name extends keyof Facts>(name: Name): Promise<Facts[Name] | undefined>;
}

/** What can be asked, and what is answered. */
export interface Facts {
  /** Opens the connection. Milliseconds since the epoch, by the database's clock. */
  readonly clock: number;
  readonly server: ServerFacts;
  /** Server settings that weaken a promise, one sentence each, for the log at start. */
  readonly warnings: readonly string[];
  readonly tables: readonly TableFacts[];
  /** How the server would run the statements that run most. */
  readonly plans: readonly PlanFacts[];
  /** Rights that this login lacks for what it has to do. */
  readonly relayRights: RightFacts;
  readonly enqueueRights: RightFacts;
  readonly growth: GrowthFacts;
  /** Where messages of the backlog go, among a bounded number of rows. */
  readonly destinations: readonly BacklogDestination[];
  /** Versions of rows that are gone and not yet purged, of the whole server (InnoDB). */
  readonly unpurged: number;
  /** Who holds the oldest snapshot. The relay asks, too, where reading costs more than it should: some times a minute at most. */
  readonly heldSnapshot: HeldSnapshotReport;
  /** The same for metrics: its age alone. */
  readonly oldestSnapshot: SnapshotFacts;
  /** Transactions with writes that are open now: what they wrote nobody else sees. */
  readonly openTransactions: number;
  /** Bytes that are free where the tables are. */
  readonly freeBytes: number | undefined;
  /** Whether a pooler stands between, and whether it gives a session to others after each transaction. */
  readonly pooler: PoolerFacts;
}

export interface ServerFacts {
  readonly product: 'PostgreSQL' | 'MariaDB' | 'MySQL';
  readonly version: string;
  /** This login. */
  readonly login: string;
  /** Why nothing can be written: the setting that says so. */
  readonly readOnly: string | null;
  /** As a new session of this login has them. */
  readonly settings: Readonly<Record<string, string>>;
  readonly connections: { readonly used: number; readonly most: number };
  /** Schemas with tables of the outbox in which everybody may make things. */
  readonly openSchemas: readonly string[];
  /** Tables whose rows are partly hidden from this login. */
  readonly hiddenTables: readonly string[];
  /** What keeps numbers from being in the order of the inserts, with the statement that mends it. */
  readonly numbers: { readonly problem: string; readonly fix: string } | null;
}
export interface TableFacts {
  /** Without schema and prefix: `ready`. */
  readonly table: string;
  readonly name: string;
  /** With indexes. */
  readonly bytes: number;
  /** About, as the server counted last. */
  readonly liveRows: number;
  /** `null`: nobody counts them. */
  readonly deadRows: number | null;
  readonly lastVacuum: Date | null;
  readonly isVacuumedBySelf: boolean;
}
/** Who keeps the oldest snapshot of the database: what was removed since stays in the tables until that is over. */
export interface HeldSnapshot {
  readonly server: 'PostgreSQL' | 'MariaDB' | 'MySQL';
  /** `session 4711`, `replication slot 'standby'`. */
  readonly holder: string;
  /** What this login may know of it: its application, its state. */
  readonly details: readonly string[];
  /** What an operator does to end it: a statement, or a sentence. */
  readonly end: string;
  /** Another one of the same holder tells another text. */
  readonly transaction: string;
  /** Milliseconds since it began; `undefined` where this login may not know. */
  readonly age: number | undefined;
  /** Transactions that began since; `undefined` where the server does not number them so. */
  readonly distance?: number;
  /** Dead rows of the ready table, about; `undefined` where nobody counts them. */
  readonly dead: number | undefined;
}
/** Nobody holds one, or this login lacks a right to see who. */
export type HeldSnapshotReport = HeldSnapshot | { readonly needs: string } | undefined;
/** Milliseconds after which the server gives up looking for one. */
export const LOOK_TIMEOUT = 1_000;
/** `null`: this login, or anybody, may not know it. */
export interface SnapshotFacts {
  /** Milliseconds; 0: there is none. */
  readonly age: number | null;
  /** Transactions whose dead rows it keeps: those that began since, or that are not purged yet (InnoDB). */
  readonly transactions: number | null;
}
export interface PlanFacts {
  /** What the statement does. */
  readonly statement: string;
  readonly table: string;
  readonly wanted: string;
  /** The index that the server would use; `null`: it would read the whole table. */
  readonly index: string | null;
}
export interface RightFacts {
  readonly login: string;
  /** The same, quoted as `grant` wants it. */
  readonly grantee: string;
  /** As `grant` would say it: `insert on "outbox_ready"`. */
  readonly missing: readonly string[];
}
export interface GrowthFacts {
  /** The last number that was given to a row. */
  readonly last: string;
  readonly highest: string;
  /** When, milliseconds since the epoch, by the database's clock. */
  readonly at: number;
  /** An earlier row and when it was written; `null`: none of the last hour is there. */
  readonly earlier: { readonly seq: string; readonly at: number } | null;
  /** Average of some rows, as stored, with an allowance for what the server adds; `null`: there is none. */
  readonly rowBytes: number | null;
}
export interface BacklogDestination {
  readonly transport: number;
  readonly topic: string;
  /** JSON. */
  readonly options: string | null;
}
export interface PoolerFacts {
  readonly isPooled: boolean;
  /** `true`: two connections had one session of the server. `false`: that was not seen. */
  readonly sharesSessions: boolean;
}

/** Milliseconds for the statements of one question. */
export const QUESTION_TIMEOUT = 3_000;
/** Bytes: what a server adds to the texts of a row, and the row's place in its index. */
export const ROW_OVERHEAD = 150;
/** Rows that are looked at for the size of a row, and for destinations, in each table. */
export const ROW_SAMPLE = 500;
