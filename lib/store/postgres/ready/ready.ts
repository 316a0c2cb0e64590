import type { OutboxMessage, Place } from '../../../outbox-message.js';
import type { SqlConnection, SqlResult } from '../../executor.js';
import { sameSession } from '../../same-session.js';
import type { Lease } from '../../lease-store.js';
import type {
  NumberSource,
  FetchResult,
  ParkEntry,
  ReadPosition,
  ReadRange,
  ReadyStore,
  Snapshot,
  SweepResult,
  WriteReport,
} from '../../ready-store.js';
import type { TableNames } from '../../names.js';
import type { Sql, Statement } from '../../sql.js';
import { plainArray, storableText, textArray } from '../arrays.js';
import { isAsynchronous, readMessage, type RowsAs } from '../columns.js';
import { stateNumber } from '../../parked-state.js';
import { leaseArrays } from '../ops/leases.js';
import type { PostgresParkedSettle } from '../parked/settle.js';
import { readyStatements, FENCE_COLUMN, SNAPSHOT_COLUMN, SOURCE_COLUMN, type ReadyStatements } from './statements.js';
import type { PostgresPayloads } from './payloads.js';
import type { RowsRead } from './rows-read.js';
import { statement } from '../statement.js';

/** No number is above it. */
const HIGHEST = String(2n ** 63n - 1n);
/** Places per bucket that a sweep returns. */
const SWEEP_PAGE = 10_000;

export interface Connections {
  read(): SqlConnection;
  /** What was published is deleted on it, and a crash may undo that; each write that must be durable sets `DURABLE` for itself. */
  settle(): SqlConnection;
}

/** The hot table: read by place, emptied by place. */
export class PostgresReady implements ReadyStore {
  readonly sql: ReadyStatements;

  constructor(
    readonly connections: Connections,
    names: TableNames,
    errorHistory: number,
    readonly parts: {
      readonly parkedSettle: PostgresParkedSettle;
      readonly rowsRead: RowsRead;
      readonly payloads: PostgresPayloads;
    },
  ) {
    this.sql = readyStatements(names, errorHistory);
  }

  fetch(request: Parameters<ReadyStore['fetch']>[0]): Promise<FetchResult> {
    const { transport, positions, perBucket, limit, within, asksFence = false } = request;
    const upTo = plainArray(positions.map((position) => position.upTo ?? HIGHEST));
    const values = [asksFence, ...positionArrays(positions), upTo, transport, perBucket, limit];
    return this.read(transport, this.sql.fetch, values, within);
  }

  readPlaces(transport: number, places: readonly Place[], visibleIn: Snapshot | undefined): Promise<FetchResult> {
    const sorted = [...places].sort((a, b) => a.bucket - b.bucket || (BigInt(a.seq) < BigInt(b.seq) ? -1 : 1));
    return this.read(transport, this.sql.readPlaces, [
      plainArray(sorted.map((place) => place.bucket)),
      plainArray(sorted.map((place) => place.seq)),
      transport,
      visibleIn === undefined ? null : writeSnapshot(visibleIn),
    ]);
  }

  readPayloads(...args: Parameters<ReadyStore['readPayloads']>): ReturnType<ReadyStore['readPayloads']> {
    return this.parts.payloads.read(...args);
  }

  get session(): number {
    return this.connections.read().generation;
  }

  async sweep(transport: number, ranges: readonly ReadRange[], known = 0): Promise<SweepResult> {
    if (ranges.length === 0) return { places: [], complete: true };
    const upTo = plainArray(ranges.map((range) => range.upTo));
    const page = SWEEP_PAGE + known;
    const { rows } = await this.connections
      .read()
      .run(this.sql.sweep.bind(...positionArrays(ranges), upTo, transport, page));
    const places = rows.map(([bucket, seq]) => ({ bucket: Number(bucket), seq: seq as string }));
    const counts = new Map<number, number>();
    for (const { bucket } of places) counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
    return { places, complete: Math.max(0, ...counts.values()) < page };
  }

  async flush(session?: number): Promise<void> {
    const read = this.connections.read();
    await read.run(this.sql.flush.bind());
    sameSession(read, session);
  }

  async settle(...[transport, messages, onPublished]: Parameters<ReadyStore['settle']>): Promise<WriteReport> {
    const ready = messages.filter((message) => message.parkedId === null);
    const report = await this.settleReady(transport, ready, onPublished);
    if (report.affected === messages.length) return report;
    // Published from parked; or moved there by the bucket's next owner while this publish was under way.
    const rest = report.affected === ready.length ? messages.filter((message) => message.parkedId !== null) : messages;
    const parked = await this.parts.parkedSettle.settle(transport, rest, onPublished);
    return { fence: report.fence ?? parked.fence, affected: report.affected + parked.affected };
  }

  private async settleReady(
    ...[transport, messages, onPublished]: Parameters<ReadyStore['settle']>
  ): Promise<WriteReport> {
    if (messages.length === 0) return { fence: undefined, affected: 0 };
    const archive = onPublished === 'archive';
    const sql = archive ? this.sql.archive : this.sql.settle;
    const written = await this.connections.settle().run(sql.bind(...placeArrays(messages), transport));
    return readReport(written);
  }

  async park(owner: string, leases: readonly Lease[], entries: readonly ParkEntry[]): Promise<WriteReport> {
    let fence: string | undefined;
    let affected = 0;
    for (const [transport, held] of byTransport(leases)) {
      const sql = this.sql.park.bind(...leaseArrays(held), owner, ...parkArrays(entries), transport);
      const report = readReport(await this.connections.settle().run(sql));
      fence ??= report.fence;
      affected += report.affected;
    }
    return { fence, affected };
  }

  private async read(
    transport: number,
    statements: Record<RowsAs, Statement>,
    values: readonly unknown[],
    within?: number,
  ): Promise<FetchResult> {
    const connection = this.connections.read();
    return this.parts.rowsRead.read(transport, async (as) => {
      const sql = statements[as].bind(...values);
      const result = await (within === undefined ? connection.run(sql) : runWithin(connection, within, sql));
      return readFetch(result, as, connection.generation);
    });
  }
}

/** The server gives it up after so many milliseconds. */
function runWithin(connection: SqlConnection, ms: number, sql: Sql): Promise<SqlResult> {
  return connection.transaction(async (tx) => {
    await tx.run(statement(undefined, `set local statement_timeout = ${Math.ceil(ms)}`).bind());
    return tx.run(sql);
  });
}

function readFetch({ rows }: SqlResult, as: RowsAs, session: number): FetchResult {
  const messages: OutboxMessage[] = [];
  let snapshot: Snapshot | undefined;
  let source: NumberSource | undefined;
  let fence: string | undefined;
  let durable = true;
  for (const row of rows) {
    if (row[0] === null) {
      snapshot = readSnapshot(row[SNAPSHOT_COLUMN] as string);
      source = readSource(row[SOURCE_COLUMN] as string);
      fence = (row[FENCE_COLUMN] ?? undefined) as string | undefined;
      continue;
    }
    if (durable && isAsynchronous(row)) durable = false;
    messages.push(readMessage(row, as));
  }
  return { messages, snapshot, durable, session, source, fence };
}

/** `xmin:xmax:xip,xip,…` */
export function readSnapshot(text: string): Snapshot {
  const [xmin, xmax, open] = text.split(':') as [string, string, string];
  return { xmin, xmax, open: open === '' ? [] : open.split(',') };
}
function readSource(text: string): NumberSource {
  const [server, table, last] = text.split(' ');
  return { server, table, last };
}
function writeSnapshot({ xmin, xmax, open }: Snapshot): string {
  return `${xmin}:${xmax}:${open.join(',')}`;
}
export function readReport({ rows }: SqlResult): WriteReport {
  const [fence, affected] = rows[0] as readonly [string, string];
  return { fence, affected: Number(affected) };
}

function positionArrays(positions: readonly ReadPosition[]): [string, string] {
  return [
    plainArray(positions.map((position) => position.bucket)),
    plainArray(positions.map((position) => position.after)),
  ];
}
export function placeArrays(places: readonly (Place & { id: string })[]): [string, string, string] {
  return [
    plainArray(places.map((place) => place.bucket)),
    plainArray(places.map((place) => place.seq)),
    plainArray(places.map((place) => place.id)),
  ];
}
/** Nine parameters: the places, and what is to be written. */
export function parkArrays(entries: readonly ParkEntry[]): string[] {
  return [
    ...placeArrays(entries),
    plainArray(entries.map((entry) => stateNumber(entry.state))),
    plainArray(entries.map((entry) => entry.blocks)),
    plainArray(entries.map((entry) => entry.attempts)),
    plainArray(entries.map((entry) => entry.delay)),
    textArray(entries.map((entry) => storableText(entry.error))),
    textArray(entries.map((entry) => storableText(entry.progress ?? null))),
  ];
}
/** Park entries name buckets only; all leases of one call belong to one transport, but nothing depends on it. */
function byTransport(leases: readonly Lease[]): Map<number, Lease[]> {
  const groups = new Map<number, Lease[]>();
  for (const lease of leases) groups.set(lease.transport, [...(groups.get(lease.transport) ?? []), lease]);
  return groups;
}
