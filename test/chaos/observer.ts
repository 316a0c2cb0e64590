import { setTimeout as pause } from 'node:timers/promises';
import { leaksIn, leaksInErrors } from './leaks.js';
import type { Fleet } from './fleet.js';
import { StandingRows } from './standing-rows.js';
import { RELAY } from './settings.js';
import { uidAt } from './workload.js';

/** Milliseconds without any progress after which what waits is stuck; and in all. */
const NO_PROGRESS = 60_000;
const DRAIN_TIMEOUT = 600_000;
const SAMPLE_EVERY = 2_000;
/** As the column says; see docs/design.md. */
const DEAD = 4;

/** What is seen of a run from outside: connections while it lasts, the tables when it ends. */
export class Observer {
  private readonly sampler: NodeJS.Timeout;
  private readonly standing: StandingRows;
  /** Microseconds by which the database's clock, which is this machine's, is ahead of ours; it may drift in half an hour. */
  private readonly offsets: { at: number; ahead: number }[] = [];

  constructor(
    private readonly fleet: Fleet,
    private readonly say: (what: string) => void,
  ) {
    this.sampler = setInterval(() => void this.sample().catch(() => undefined), SAMPLE_EVERY);
    this.compareClocks();
    this.standing = new StandingRows(fleet.database);
  }

  private get postgres(): boolean {
    return this.fleet.settings.store === 'postgres';
  }

  private compareClocks(): void {
    const at = Date.now() * 1_000;
    this.offsets.push({ at, ahead: at - this.fleet.history.now() });
  }

  private turns = 0;
  private async sample(): Promise<void> {
    this.compareClocks();
    const { committed, seen } = this.fleet.counts;
    if ((this.turns += 1) % 5 === 0) this.say(`${committed} committed, ${seen} deliveries`);
    const { history, relays } = this.fleet;
    for (const { index, broker } of relays) history.add(['k', history.now(), index, broker.open]);
    await this.countConnections();
    const stands = await this.standing.look(history.now(), RELAY.lease * 1_000);
    history.add(['w', history.now(), stands]);
  }

  /** To the database, of each relay; behind a pooler to the pooler, as its own are as many as it likes. */
  private async countConnections(): Promise<void> {
    const { database, history, relays, pooler } = this.fleet;
    if (pooler !== undefined) {
      for (const { index, database: wire, direct } of relays)
        history.add(['n', history.now(), index, wire.open + (direct?.open ?? 0)]);
      return;
    }
    const rows = await database.query(
      this.postgres
        ? 'select usename, count(*) from pg_stat_activity group by 1'
        : 'select user, count(*) from information_schema.processlist group by 1',
    );
    for (const [user, count] of rows) {
      const slot = relays.find((each) => each.user === user);
      if (slot !== undefined) history.add(['n', history.now(), slot.index, Number(count)]);
    }
  }

  /** Until nothing waits any more, and the consumer has seen it. Deadlines, not promises: what is left is told. */
  async drain(): Promise<void> {
    const end = performance.now() + DRAIN_TIMEOUT;
    let deadline = performance.now() + NO_PROGRESS;
    let fewest = Infinity;
    const { database, history } = this.fleet;
    history.add(['drain', history.now()]);
    for (let rows = Infinity; rows > 0; await pause(250)) {
      if (rows < fewest) {
        fewest = rows;
        deadline = Math.min(end, performance.now() + NO_PROGRESS + RELAY.lease);
      } else if (performance.now() > deadline) break;
      this.fleet.release();
      const text = `select (select count(*) from outbox_ready) + (select count(*) from outbox_parked where state <> ${DEAD})`;
      rows = Number((await database.query(text).catch(() => [['Infinity']]))[0]?.[0]);
    }
    for (let seen = -1; seen !== this.fleet.counts.seen;) {
      seen = this.fleet.counts.seen;
      await pause(1_500);
    }
    history.add(['drained', history.now()]);
    this.say('drained');
  }

  /** What the tables hold when all relays are gone. */
  async readEnd(): Promise<void> {
    clearInterval(this.sampler);
    const { database, history } = this.fleet;
    const epoch = this.postgres ? 'extract(epoch from at)' : 'unix_timestamp(at)';
    const log = `select ${epoch} * 1000000, transport, bucket, owner, epoch from lease_log order by id`;
    let clock = 0;
    for (const [text, transport, bucket, owner, number] of await database.query(log)) {
      const at = Math.round(Number(text));
      while ((this.offsets[clock + 1]?.at ?? Infinity) <= at) clock += 1;
      const { ahead } = this.offsets[clock] as { ahead: number };
      history.add(['l', at - ahead, Number(transport), Number(bucket), owner, Number(number)]);
    }
    const head = this.postgres ? `convert_from(substring(payload from 1 for 30), 'UTF8')` : 'left(payload, 30)';
    const tables = [
      ['ready', '0'],
      ['parked', 'state'],
    ];
    if (this.postgres && this.fleet.settings.ordering === 'strict') tables.push(['staged', '0']);
    for (const [table, state] of tables) {
      const rows = await database.query(`select ${state}, transport, ${head} from outbox_${table}`);
      for (const [number, transport, payload] of rows) {
        const uid = uidAt(String(payload));
        history.add(['left', table, Number(number), Number(transport), uid]);
      }
    }
    const held = await database.query('select count(*) from outbox_leases where owner is not null');
    history.add(['held', Number(held[0]?.[0])]);
    const [said, stored] = [leaksIn(history.folder), await leaksInErrors(database)];
    for (const { where, secret } of [...said.leaks, ...stored.leaks]) history.add(['leak', where, secret]);
    history.add(['searched', said.files, stored.errors]);
  }
}
