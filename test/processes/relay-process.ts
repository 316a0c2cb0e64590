/** A relay in a process of its own: publishes by appending to a ledger file, or to Kafka. Started by `fleet.ts`. */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import {
  type OutboxMessage,
  type PublishContext,
  type PublishResult,
  OutboxDispatcher,
  OutboxTransport,
  PUBLISHED,
} from '../../lib/index.js';
import { stopwatch, systemClock } from '../../lib/time/clock.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { eachRole } from '../support/each-role.js';
import { openStore } from '../support/open-store.js';
import { databaseOptions } from './database-options.js';
import type { FleetSettings, Order } from './fleet.js';

const settings = JSON.parse(process.env['FLEET'] as string) as FleetSettings;

/** Whoever asks this process for the time gets it wrong by this much. */
let wrongBy = 0;
/** Messages that `publishSingly` has begun with. */
let begun = 0;
const now = Date.now.bind(Date);
Date.now = () => now() + wrongBy;

/** One write per batch: the order in the file is the order of the publishes, across processes. */
class LedgerTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns = true;
  readonly ledger = openSync(settings.ledger, 'a');

  async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<readonly PublishResult[] | void> {
    if (batch.some(({ key }) => key === settings.poison)) process.kill(process.pid, 'SIGKILL');
    if (settings.pace !== undefined) return this.publishSingly(batch, context, settings.pace);
    const refused = batch.map(({ attempts, key }) => settings.refuse === true && key?.endsWith('0') && attempts < 2);
    this.write(batch.filter((_, index) => !refused[index]));
    const error = new Error('not yet');
    return batch.map((_, index) => (refused[index] ? { ok: false, blame: 'message', error } : PUBLISHED));
  }

  /** As a slow broker does. A message during which the process stood still is refused for good: nobody may hear of that. */
  async publishSingly(
    batch: readonly OutboxMessage[],
    { report, timeout, signal }: PublishContext,
    pace: number,
  ): Promise<void> {
    const elapsed = stopwatch(systemClock);
    for (const [index, message] of batch.entries()) {
      await pause(pace);
      begun += 1;
      if (begun === settings.freezeAt) {
        process.kill(process.pid, 'SIGSTOP');
        report(index, { ok: false, blame: 'message', final: true, error: new Error('stood still') });
      }
      if (elapsed() >= timeout || signal.aborted) return;
      this.write([message]);
      report(index, PUBLISHED);
    }
  }

  write(messages: readonly OutboxMessage[]): void {
    writeSync(
      this.ledger,
      messages.map(({ key, id, body }) => `${key} ${String(body)} ${id} ${process.pid}\n`).join(''),
    );
  }
}

async function createTransport(): Promise<OutboxTransport> {
  if (settings.kafka === undefined) return new LedgerTransport();
  const { port, fencing } = settings.kafka;
  const { kafka } = await import('../../lib/transports/kafka/index.js'); // only here: it takes its time
  const { kafkaThrough } = await import('../support/kafka.js');
  const client = kafkaThrough({ host: '127.0.0.1', port });
  return kafka({ client, ...(fencing === undefined ? {} : { fencing }) }).create();
}

let calls = 0;
/** Kills this process with its `nth` call of a method, before it is made or when its work is done. */
function mortal<T extends object>(target: T): T {
  const { dieAt } = settings;
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== dieAt?.method) return value.bind(target) as unknown;
      return async (...args: unknown[]) => {
        calls += 1;
        if (calls === dieAt.nth && dieAt.when === 'before') process.kill(process.pid, 'SIGKILL');
        const result: unknown = await Reflect.apply(value, target, args);
        if (calls === dieAt.nth) process.kill(process.pid, 'SIGKILL');
        return result;
      };
    },
    set: (_, name, value) => Reflect.set(target, name, value),
  });
}

async function main(): Promise<void> {
  const dataSource = await new DataSource(databaseOptions(settings.url)).initialize();
  const transport = mortal(await createTransport());
  const { lease, relayOptions } = settings;
  const options = resolveOptions(
    { transports: { default: transport }, pollInterval: 100, publishTimeout: 500, lease, ...relayOptions },
    {},
  );
  const { database, ordering, coordination, onPublished, publishTimeout, buckets } = options;
  const tables = { options: database, ordering, coordination, buckets };
  const opened = openStore(dataSource, { ...tables, onPublished, publishTimeout });
  const store = eachRole(opened, mortal);
  const transportIds = await store.setup.transports(['default'], 'default');
  const dispatcher = new OutboxDispatcher({
    options,
    store,
    clock: systemClock,
    random: Math.random,
    hooks: {
      has: () => false,
      emit: (name, event) => {
        if (name === 'leasesAcquired') process.send?.(name);
        else if (name !== 'circuitClosed' && settings.relayOptions === undefined)
          console.error(process.pid, name, JSON.stringify(event));
      },
    },
    transportIds,
    createTransports: async () => new Map([['default', transport]]),
  });
  const stop = async (): Promise<void> => {
    await dispatcher.stop();
    await store.close();
    await dataSource.destroy();
    process.exit(0);
  };
  process.once('SIGTERM', () => void stop());
  const start = async (): Promise<void> => {
    await dispatcher.start();
    process.send?.('ready');
  };
  process.on('message', (order: Order) => {
    if (order.wrongBy !== undefined) wrongBy = order.wrongBy;
    if (order.start === true) void start();
  });
  if (settings.waits === true) process.send?.('loaded');
  else await start();
}

void main();
