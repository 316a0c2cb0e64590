import type pg from 'pg';
import type { DataSource } from 'typeorm';
import type { TransportDefinition } from '../../lib/index.js';
import { argument, Samples, timed } from './measure.js';
import { adminClient, startPostgres } from './postgres.js';
import { benchRelay, connect, createTables, drain } from './relay.js';
import { empty, fillReady, PAYLOAD_BYTES } from './rows.js';
import { bench, type Closing } from './run.js';
import { cpuOfRelay } from './server-cpu.js';

export const KEYS = [10_000, 100, 10];
export const BATCH = 500;

/** One broker, seen from both sides of the comparison. */
export interface BrokerUnderTest {
  readonly topic: string;
  readonly definition: TransportDefinition;
  /** The same transport with other options, over the largest number of keys. */
  readonly variants?: Readonly<Record<string, TransportDefinition>>;
  /** The client by itself: publishes the batches from memory, so many at a time, and waits for the confirms. */
  readonly ceilings: Readonly<Record<string, (messages: number, keys: number) => Promise<{ ms: number; cpu: number }>>>;
  /** Throws unless exactly so many messages arrived since the last call; with `markers` also what is none may have. */
  expect(messages: number, markers?: boolean): Promise<void>;
}

/** A backlog whose keys have at least a few messages each, and which few keys do not stretch to minutes. */
const messagesFor = (keys: number, most: number): number => Math.min(most, keys * 500);

/** `count` pieces of work, one after the other on each of the workers. */
export async function inFlight(
  workers: number,
  count: number,
  work: (index: number, worker: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const run = async (_: unknown, worker: number): Promise<void> => {
    while (next < count) await work(next++, worker);
  };
  await Promise.all(Array.from({ length: workers }, run));
}

export class BrokerDrain {
  private constructor(
    readonly dataSource: DataSource,
    readonly admin: pg.Client,
    readonly broker: BrokerUnderTest,
    readonly most: number,
  ) {}

  static async open(closing: Closing, broker: BrokerUnderTest, most: number): Promise<BrokerDrain> {
    const server = await startPostgres(closing);
    const dataSource = await connect(closing, server.url);
    await createTables(dataSource);
    return new BrokerDrain(dataSource, await adminClient(closing, server.url), broker, most);
  }

  /** One repeat: the client alone, each way, and then the outbox over each number of keys. */
  async repeat(samples: Samples): Promise<void> {
    let ceiling = 0;
    for (const [name, run] of Object.entries(this.broker.ceilings)) {
      const { ms, cpu } = await run(this.most, KEYS[0] as number);
      await this.broker.expect(this.most);
      ceiling = Math.max(ceiling, (this.most / ms) * 1_000);
      samples.add({ [`${name}PerSecond`]: (this.most / ms) * 1_000, [`${name}NodeMicros`]: cpu / this.most });
    }
    samples.add({ ceilingPerSecond: ceiling });
    for (const keys of KEYS) await this.drain(samples, `keys${keys}`, keys, ceiling, this.broker.definition);
    for (const [name, definition] of Object.entries(this.broker.variants ?? {}))
      await this.drain(samples, name, KEYS[0] as number, ceiling, definition);
  }

  /** @internal */ async drain(
    samples: Samples,
    name: string,
    keys: number,
    ceiling: number,
    definition: TransportDefinition,
  ): Promise<void> {
    const messages = messagesFor(keys, this.most);
    await empty(this.admin);
    await fillReady(this.admin, { rows: messages, keys, topic: this.broker.topic });
    const relay = await benchRelay(this.dataSource, { default: definition }, { batchSize: BATCH });
    try {
      const drained = await drain(this.dataSource, relay, messages);
      const perSecond = (drained.rows / drained.ms) * 1_000;
      const { claim, settle } = await cpuOfRelay(this.admin);
      samples.add({
        [`${name}PerSecond`]: perSecond,
        [`${name}Ratio`]: perSecond / ceiling,
        [`${name}NodeMicros`]: drained.cpu / drained.rows,
        [`${name}DatabaseMicros`]: (claim + settle) / messages,
      });
    } finally {
      await relay.close();
    }
    await this.broker.expect(messages, definition !== this.broker.definition);
  }
}

/** Publishes the same once before anything is measured: connections, code and the broker are warm. */
export async function warmUp(broker: BrokerUnderTest, messages: number): Promise<void> {
  for (const run of Object.values(broker.ceilings)) {
    await timed(() => run(messages, 100));
    await broker.expect(messages);
  }
}

/** How many messages, and how often: the arguments of a benchmark of a broker. */
export const argumentsOf = (most: number): { readonly messages: number; readonly repeats: number } => ({
  messages: argument(0, 'messages', most),
  repeats: argument(1, 'repeats', 5),
});

/** Measures one broker, and prints the medians. @param about what else a reader of the result should know */
export function benchBroker(
  name: string,
  { messages, repeats }: ReturnType<typeof argumentsOf>,
  open: (closing: Closing) => Promise<BrokerUnderTest>,
  about: Readonly<Record<string, unknown>> = {},
): void {
  bench(name, async (closing) => {
    const broker = await open(closing);
    const run = await BrokerDrain.open(closing, broker, messages);
    const samples = new Samples();
    await warmUp(broker, Math.min(messages, 10_000));
    for (let repeat = 0; repeat < repeats; repeat += 1) await run.repeat(samples);
    const ratioRange = samples.range('keys10000Ratio');
    return { messages, payloadBytes: PAYLOAD_BYTES, batch: BATCH, repeats, ...about, ...samples.medians(), ratioRange };
  });
}
