/** Reads everything that arrives, straight from the broker, and writes it down in order. Started by `../fleet.ts`. */
import { Part } from '../part.js';
import { clockSince, readSettings, tell, TRANSPORTS, type ConsumerSettings, type Order } from '../settings.js';
import { uidIn } from '../workload.js';
import { consumeKafka } from './consume-kafka.js';
import { consumeRabbitMq } from './consume-rabbitmq.js';

const settings = readSettings<ConsumerSettings>();
const now = clockSince(settings.origin);
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

export type Sight = (transport: number, relay: number, redelivered: boolean, payload: Buffer | null) => void;

const sight: Sight = (transport, relay, redelivered, payload) => {
  count += 1;
  const uid = payload === null ? undefined : uidIn(payload);
  if (uid === undefined) {
    part.add(['x', transport, relay, payload?.toString('latin1', 0, 80) ?? null]);
    return;
  }
  if (run?.transport !== transport || run.relay !== relay || run.redelivered !== redelivered) {
    flushRun();
    run = { transport, relay, redelivered, time: now(), uids: [] };
  }
  run.uids.push(uid);
};

process.on('message', (order: Order) => {
  if (order.kind !== 'flush') return;
  part.flush();
  tell({ kind: 'flushed', count });
});
process.once('disconnect', () => process.exit(0));
setInterval(() => tell({ kind: 'count', count }), 200);

const consume = settings.broker === 'rabbitmq' ? consumeRabbitMq : consumeKafka;
consume(settings.brokerUrl, TRANSPORTS, sight).then(
  () => tell({ kind: 'ready' }),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
