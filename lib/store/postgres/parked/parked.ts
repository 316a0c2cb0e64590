import type { SqlResult } from '../../executor.js';
import type { Lease } from '../../lease-store.js';
import type {
  DeadLetter,
  Death,
  DueRow,
  Hastened,
  HastenRequest,
  KeyInBucket,
  ParkedStore,
  ReparkEntry,
  TakeRequest,
  TakeResult,
} from '../../parked-store.js';
import type { WriteReport } from '../../ready-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { hastenPart } from '../../sql/hasten.js';
import { plainArray, storableText, textArray } from '../arrays.js';
import { readParked, type RowsAs } from '../columns.js';
import { stateName, stateNumber } from '../../parked-state.js';
import { leaseArrays } from '../ops/leases.js';
import type { Connections } from '../ready/ready.js';
import { parkedStatements, type ParkedStatements } from './statements.js';
import { untilNonePassedOver } from './passed-over.js';
import { eachWay, type RowsRead } from '../ready/rows-read.js';
import { Take, type ReadSql } from '../../sql/take.js';
import { POSTGRES } from '../dialect.js';
import { postgresRead, postgresTake } from './take.js';

/** Messages that cannot be published now, and the order of their keys. */
export class PostgresParked implements ParkedStore {
  readonly sql: ParkedStatements;
  private readonly taker: Take;
  private readonly reading: Readonly<Record<RowsAs, ReadSql>>;

  constructor(
    readonly connections: Connections,
    names: TableNames,
    { ordering, errorHistory }: Pick<StoreSettings, 'ordering' | 'errorHistory'>,
    readonly rowsRead: RowsRead,
  ) {
    this.sql = parkedStatements(names, ordering, errorHistory);
    this.taker = new Take(POSTGRES, postgresTake(names, ordering), ordering);
    this.reading = eachWay((as) => postgresRead(names, as));
  }

  async due(...[transport, buckets, limit]: Parameters<ParkedStore['due']>): ReturnType<ParkedStore['due']> {
    const all = plainArray(buckets);
    const { rows } = await this.connections
      .read()
      .run(this.sql.due.bind(all, transport, all, transport, transport, limit, limit));
    let nextIn: number | null = null;
    const due: DueRow[] = [];
    for (const [parkedId, bucket, key, state, next] of rows) {
      if (parkedId === null) nextIn = next === null ? null : Number(next);
      else
        due.push({
          parkedId: parkedId as string,
          bucket: Number(bucket),
          key: key as string | null,
          state: stateName(state),
        });
    }
    return { rows: due, nextIn };
  }

  hasten(transport: number, buckets: readonly number[], request: HastenRequest): Promise<Hastened> {
    const write = this.connections.settle();
    return hastenPart(
      buckets,
      request,
      POSTGRES,
      (after) => this.connections.read().run(this.sql.untried.bind(transport, after, request.limit)),
      async (ids) => (await write.run(this.sql.hasten.bind(plainArray(ids)))).affected,
    );
  }

  take(request: TakeRequest): Promise<TakeResult> {
    return this.rowsRead.read(request.transport, (as) =>
      this.connections.settle().transaction((tx) => this.taker.take(tx, request, this.reading[as])),
    );
  }

  async repark(owner: string, leases: readonly Lease[], entries: readonly ReparkEntry[]): Promise<WriteReport> {
    const write = this.sql.repark.bind(...leaseArrays(leases), owner, ...reparkArrays(entries));
    return untilNonePassedOver(() => this.connections.settle().run(write));
  }

  async blockingKeys(...of: Parameters<ParkedStore['blockingKeys']>): ReturnType<ParkedStore['blockingKeys']> {
    const [transport, buckets, limit, after] = of;
    const first = textArray(buckets.map((bucket) => smallestBehind(after?.get(bucket))));
    const { rows } = await this.connections
      .read()
      .run(this.sql.blockingKeys.bind(plainArray(buckets), first, transport, transport, transport, transport, limit));
    return rows.map(([bucket, key, ready]) => ({ bucket: Number(bucket), key: key as string, ready: ready === 't' }));
  }

  async blockedAmong(transport: number, keys: readonly KeyInBucket[]): Promise<KeyInBucket[]> {
    if (keys.length === 0) return [];
    const [buckets, texts] = [plainArray(keys.map(({ bucket }) => bucket)), textArray(keys.map(({ key }) => key))];
    const { rows } = await this.connections.read().run(this.sql.blockedAmong.bind(buckets, texts, transport));
    return rows.map(([bucket, key]) => ({ bucket: Number(bucket), key: key as string }));
  }

  async unannouncedDead(transports: readonly number[], limit: number, after?: Death): Promise<DeadLetter[]> {
    return this.rowsRead.read('letters', async (as) => {
      const from = transports.map((transport) => (transport === after?.transport ? after.parkedId : 0));
      const values = [plainArray(transports), plainArray(from), limit, limit];
      return readLetters(await this.connections.settle().run(this.sql.unannounced[as].bind(...values)), as);
    });
  }

  async markAnnounced(deaths: readonly Death[]): Promise<void> {
    if (deaths.length === 0) return;
    const ids = plainArray(deaths.map(({ parkedId }) => parkedId));
    await this.connections.settle().run(this.sql.markAnnounced.bind(ids, plainArray(deaths.map(({ died }) => died))));
  }
}

/** Of the column's order, that of bytes, in which there is no character before this one. */
const smallestBehind = (key: string | undefined): string => (key === undefined ? '' : `${key}\u0001`);

/** Ten parameters: the rows, and what is to be written. */
export function reparkArrays(entries: readonly ReparkEntry[]): string[] {
  return [
    plainArray(entries.map((entry) => entry.parkedId)),
    plainArray(entries.map((entry) => entry.bucket)),
    plainArray(entries.map((entry) => stateNumber(entry.state))),
    plainArray(entries.map((entry) => entry.blocks)),
    plainArray(entries.map((entry) => entry.attempts)),
    plainArray(entries.map((entry) => entry.attemptsBefore)),
    plainArray(entries.map((entry) => entry.delay)),
    textArray(entries.map((entry) => storableText(entry.error))),
    textArray(entries.map((entry) => storableText(entry.progress ?? null))),
    plainArray(entries.map((entry) => entry.progress !== undefined)),
  ];
}

function readLetters({ rows }: SqlResult, as: RowsAs): DeadLetter[] {
  return rows.map((row) => {
    const [transport, error, died] = row.slice(-3);
    const message = readParked(row, as);
    return {
      message,
      parkedId: message.parkedId as string,
      transport: Number(transport),
      error: error as string | null,
      died: died as string,
      diedAt: new Date(Number(died) / 1000),
    };
  });
}
