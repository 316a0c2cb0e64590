import type { OutboxHealth } from '../../lib/index.js';
import type { Clock } from '../../lib/time/clock.js';
import { reportOf } from '../../lib/nest/report.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import type { Fleet, Relay } from './fleet.js';
import type { History } from './history.js';
import { EPOCH } from './process.js';
import type { MemoryDatabase } from './store/memory-database.js';
import { isVisible } from './store/memory-rows.js';
import { MemoryStore } from './store/memory-store.js';
import type { World } from './world.js';

interface Stood {
  readonly id: string;
  readonly since: number;
}
type Ask = () => Promise<OutboxHealth>;

/**
 * Invariant 20: asks each relay that runs, and a process without one, how they are, twice in a lease. A message that
 * was the first of its bucket for longer than two leases and two looks is named by one of them, or in some relay's hands.
 */
export class Watchdog {
  /** @internal By transport and bucket. */ readonly first = new Map<string, Stood>();
  /** @internal */ readonly asks = new Map<Relay, Ask>();
  /** @internal */ readonly store: MemoryStore;
  /** @internal */ readonly clock: Clock;
  /** @internal */ readonly every: number;
  /** @internal */ readonly bystander: Ask;

  constructor(
    readonly world: World,
    readonly history: History,
    readonly database: MemoryDatabase,
    readonly options: ResolvedOptions,
    readonly fleet: Fleet,
  ) {
    this.store = new MemoryStore(database);
    this.every = options.lease / 2;
    this.clock = { monotonic: () => world.now, wall: () => EPOCH + world.now, after: () => () => undefined };
    this.bystander = this.askOf({ status: () => NOBODY, relays: [] } as never, false);
  }

  /** Not where a message kills whoever publishes it: no process lives for long enough to say so. */
  begin(): void {
    if (this.fleet.plan.lethal !== null) return;
    this.world.in(this.every, () => void this.look());
  }

  /** @internal */ async look(): Promise<void> {
    this.begin();
    const { history, options, world } = this;
    const first = this.standing();
    if (first.length === 0) return; // there is nothing that could stand
    const standing = first.filter(({ since }) => world.now - since > 2 * options.lease + 2 * this.every);
    const running = [...this.fleet.relays.values()].filter(
      ({ process }) => !process.dead && process.frozenUntil <= world.now,
    );
    const answers = await Promise.all([this.bystander(), ...running.map((relay) => this.ask(relay))]);
    const inHand = (seq: string): boolean =>
      running.some(({ dispatcher }) => dispatcher.relays.some(({ knows }) => knows?.waitsFor(seq) === true));
    for (const { id, seq, since } of standing) {
      if (answers.some(explains) || inHand(seq)) continue;
      const name = history.fates.get(id)?.name ?? id;
      history.violated(20, `${name} has stood for ${(world.now - since).toFixed(0)} ms, and nobody says why`);
    }
  }

  /** @internal What is first in each bucket, and since when this was seen. */
  standing(): (Stood & { readonly seq: string })[] {
    const { database, world } = this;
    const found: (Stood & { readonly seq: string })[] = [];
    for (const transport of database.transports.values()) {
      for (let bucket = 0; bucket < database.settings.buckets; bucket += 1) {
        const [row] = database.readyRows(transport, bucket).filter(isVisible);
        const place = `${transport}/${bucket}`;
        const before = this.first.get(place);
        const stood = row === undefined ? undefined : before?.id === row.id ? before : { id: row.id, since: world.now };
        if (row === undefined || stood === undefined) this.first.delete(place);
        else {
          this.first.set(place, stood);
          found.push({ ...stood, seq: row.seq });
        }
      }
    }
    return found;
  }

  /** @internal */ ask(relay: Relay): Promise<OutboxHealth> {
    let ask = this.asks.get(relay);
    if (ask === undefined) this.asks.set(relay, (ask = this.askOf(relay.dispatcher, true)));
    return ask();
  }

  /** @internal */ askOf(dispatcher: Relay['dispatcher'], relay: boolean): Ask {
    const { store, clock, fleet } = this;
    const options = { ...this.options, relay };
    return reportOf({ store, dispatcher, options, transportIds: fleet.transportIds, clock }).health;
  }
}

/** That other messages are dead, or blocked behind one that failed, is no word about one that is ready. */
const explains = ({ status, reasons }: OutboxHealth): boolean =>
  status !== 'up' && reasons.some(({ code }) => code !== 'dead_letters' && code !== 'keys_blocked');
const NOBODY = { running: false, storeDownFor: null, transports: [] };
