/** Reads everything that arrives, straight from the broker, and writes it down in order. Started by `../fleet.ts`. */
import { Part } from '../part.js';
import { clockSince, readSettings, tell, TRANSPORTS, type ConsumerSettings, type Order } from '../settings.js';
import { uidIn } from '../workload.js';

const settings = readSettings<ConsumerSettings>();
const now = clockSince(settings.origin);
/** Microseconds from the epoch to the start of the harness. */
const started = Date.now() * 1_000 - now();
/** Microseconds between the deliveries of one line, at most. */
const TOGETHER = 50_000;
let count = 0;

/** Deliveries one after the other of one transport and one relay, which stand in one line. */
interface Run {
  readonly transport: number;
  readonly relay: number;
  readonly redelivered: boolean;
  readonly time: number;
  readonly uids: number[];
}
let run: Run | undefined;

function flushRun(): void {
  if (run !== undefined) part.add(['s', run.transport, run.time, run.relay, run.redelivered ? 1 : 0, run.uids]);
  run = undefined;
}

const part = new Part(settings.part, flushRun);

/** What of the topics that come and go is up to the consumer. */
export interface Visitor {
  /** Reads the topic of this transport to its end, and leaves it; false: not in time, and it stays. */
  leave(transport: number): Promise<boolean>;
  /** Reads it again, from its beginning, if it has left it. */
  join(transport: number): Promise<void>;
}
/** Reads from now on, over any loss of its connection. The visitor: for brokers whose topics are read out before they go. */
export type Consume = (url: string, transports: readonly string[], sight: Sight) => Promise<Visitor | void>;
let visitor: Visitor | undefined;

async function visit({ kind, transport }: Order & { kind: 'leave' | 'join' }): Promise<void> {
  if (kind === 'join') {
    await visitor?.join(transport);
    tell({ kind: 'joined' });
  } else {
    const left = await visitor?.leave(transport);
    tell({ kind: 'left', count: left === true ? 1 : 0 });
  }
}

/** `at`: when the broker had it, in milliseconds since the epoch; default now. */
export type Sight = (
  transport: number,
  relay: number,
  redelivered: boolean,
  payload: Buffer | null,
  at?: number,
) => void;

const sight: Sight = (transport, relay, redelivered, payload, at) => {
  count += 1;
  const uid = payload === null ? undefined : uidIn(payload);
  if (uid === undefined) {
    part.add(['x', transport, relay, payload?.toString('latin1', 0, 80) ?? null]);
    return;
  }
  const time = at === undefined ? now() : at * 1_000 - started;
  const isSame = run?.transport === transport && run.relay === relay && run.redelivered === redelivered;
  if (!isSame || run === undefined || time - run.time > TOGETHER) {
    flushRun();
    run = { transport, relay, redelivered, time, uids: [] };
  }
  run.uids.push(uid);
};

process.on('message', (order: Order) => {
  if (order.kind === 'leave' || order.kind === 'join') void visit(order).catch(end);
  if (order.kind !== 'flush') return;
  part.flush();
  tell({ kind: 'flushed', count });
});
process.once('disconnect', () => process.exit(0));
setInterval(() => tell({ kind: 'count', count }), 200);

function end(error: unknown): void {
  console.error(error);
  process.exit(1);
}

async function main(): Promise<void> {
  const { broker, brokerUrl } = settings;
  const { consume } = (await import(`./consume-${broker}.js`)) as { consume: Consume };
  visitor = (await consume(brokerUrl, TRANSPORTS, sight)) ?? undefined;
  tell({ kind: 'ready' });
}
main().catch(end);
