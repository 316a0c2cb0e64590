import { Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import {
  OnOutboxEvent,
  OutboxTransport,
  PUBLISHED,
  type OutboxMessage,
  type OutboxOptions,
  type OutboxService,
  type PublishResult,
} from '../../lib/index.js';
import type { TcpProxy } from '../support/tcp-proxy.js';
import { CANARY } from './canaries.js';
import { secret } from './canary-enqueue.js';
import type { CanarySettings } from './canary-process.js';
import type { Seen } from './seen.js';

/** Everything that a program can know of a message, in the words of an error. */
export function quote(message: OutboxMessage): string {
  const headers = Object.values(message.headers).map(String).join(' ');
  return `cannot handle ${String(message.payload)} with ${headers}`;
}
const inProperties = (message: OutboxMessage): Error =>
  Object.assign(new Error('cannot handle it'), { payload: String(message.payload), message, config: message.headers });

/** What handlers throw, by the type of the message. */
export const THROWN: Record<string, (message: OutboxMessage) => unknown> = {
  'throws.error': (message) => new Error(quote(message)),
  'throws.values': (message) =>
    new Error(
      Object.values(JSON.parse(String(message.payload)) as object)
        .map(String)
        .join(),
    ),
  'throws.text': (message) => quote(message),
  'throws.cause': (message) =>
    new Error('outer', { cause: new TypeError('inner', { cause: new Error(quote(message)) }) }),
  'throws.many': (message) => new AggregateError([new Error(quote(message)), inProperties(message)], 'several'),
  'throws.object': (message) => inProperties(message),
  'throws.json': (message) => {
    try {
      return JSON.parse(`${String(message.payload)}}`) as unknown;
    } catch (error) {
      return error;
    }
  },
  'throws.url': () => new Error(`cannot reach amqp://shop:${CANARY.amqpPassword}@host`),
  'throws.classifier': () => new Error('see the classifier'),
  'throws.deadLetter': () => new Error('see the hook'),
};

@Injectable()
export class Handlers {
  @OnOutboxEvent({ type: 'throws.error' })
  @OnOutboxEvent({ type: 'throws.values' })
  @OnOutboxEvent({ type: 'throws.text' })
  @OnOutboxEvent({ type: 'throws.cause' })
  @OnOutboxEvent({ type: 'throws.many' })
  @OnOutboxEvent({ type: 'throws.object' })
  @OnOutboxEvent({ type: 'throws.json' })
  @OnOutboxEvent({ type: 'throws.url' })
  @OnOutboxEvent({ type: 'throws.classifier' })
  @OnOutboxEvent({ type: 'throws.deadLetter' })
  handle(_: unknown, message: OutboxMessage): void {
    throw (THROWN[message.type] as (message: OutboxMessage) => unknown)(message);
  }
  @OnOutboxEvent({ type: 'hangs' })
  hang(): Promise<void> {
    return new Promise(() => {});
  }
}

/** Options whose functions throw what they were given. */
export function hooks(): Pick<OutboxOptions, 'retry' | 'deadLetter'> {
  let refusedLetters = 0;
  return {
    retry: {
      initial: 1,
      max: 1,
      maxAttempts: 2,
      errorHistory: 5,
      classify: (_, message) => {
        if (message.type === 'throws.classifier') throw new Error(quote(message));
        return undefined;
      },
    },
    deadLetter: ({ message, error }) => {
      if (message.type !== 'throws.deadLetter' || refusedLetters++ > 0) return;
      throw Object.assign(new Error(`${error}: ${quote(message)}`), { letter: message });
    },
  };
}

/** Publishes; or rejects, or fails one by one, quoting what it was given. */
export class Silent extends OutboxTransport {
  override readonly receipt = 'broker';
  rejections = 0;

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    if (batch.some(({ type }) => type === 'rejects') && this.rejections++ < 2)
      throw new Error(`cannot send ${batch.map(quote).join()}`);
    return batch.map((message) =>
      message.type === 'refused' ? { ok: false, blame: 'message', error: new Error(quote(message)) } : PUBLISHED,
    );
  }
}

interface Surroundings {
  readonly seen: Seen;
  readonly proxy: TcpProxy;
}

export async function failingPublishes(
  outbox: OutboxService,
  { seen, proxy, settings }: Surroundings & { settings: CanarySettings },
): Promise<void> {
  const send = (type: string, more: object = {}) =>
    outbox.enqueueOutsideTransaction(secret({ type, key: type, ...more }));
  for (const type of [...Object.keys(THROWN), 'hangs', 'unhandled']) await send(type);
  await send('text', { payload: CANARY.text, contentType: 'text/plain' });
  await send('refused', { transport: 'quiet' });
  await send('rejects', { transport: 'quiet' });
  await send('unroutable', { transport: 'rabbit', topic: 'canary-has-no-queue' });
  await send('no.exchange', {
    transport: 'rabbit',
    options: { rabbitmq: { exchange: 'outbox-test-nowhere', correlationId: CANARY.option } },
  });
  await send('too.large', {
    transport: 'log',
    topic: settings.smallTopic,
    payload: { big: `${CANARY.payload} `.repeat(500) },
  });
  await send('no.topic', { transport: 'log', topic: 'outbox-test-no-such-topic' });
  for (const transport of ['locked', 'secured', 'nowhere']) await send(`to.${transport}`, { transport });
  for (const type of [...Object.keys(THROWN), 'refused', 'too.large'])
    await seen.told('dead', { type } as OutboxMessage);
  for (const type of ['text', 'unhandled', 'unroutable', 'no.exchange', 'no.topic'])
    await seen.told('retried', { type } as OutboxMessage);
  for (const transport of ['quiet', 'locked', 'secured', 'nowhere']) await seen.opened(transport);
  seen.print('health', await outbox.health());
  const held = secret({ type: 'held', key: null, transport: 'rabbit', topic: settings.queue });
  await cutBroker(outbox, { seen, proxy }, 'rabbit', () => outbox.enqueueOutsideTransaction(held));
}

/** The broker does not answer, and then it is gone. */
export async function cutBroker(
  outbox: OutboxService,
  { seen, proxy }: Surroundings,
  transport: string,
  send: () => Promise<unknown>,
): Promise<void> {
  for (const how of ['hold', 'refuse'] as const) {
    await seen.another(`the broker: ${how}`, 'circuitOpened', { transport }, async () => {
      if (how === 'hold') proxy.set({ down: 'hold' });
      else await proxy.refuse().then(() => proxy.cut());
      await send();
    });
    seen.print(`health of ${transport}, broker: ${how}`, await outbox.health());
    proxy.heal();
    await proxy.accept();
  }
}

export async function failingOperators(outbox: OutboxService, seen: Seen): Promise<void> {
  seen.print('requeue', await outbox.requeue({ type: 'throws.error' }));
  seen.print('discard', await outbox.discard({ type: 'throws.text' }));
  seen.print('cancel', await outbox.cancel({ topic: 'text' }));
  seen.print('release', await outbox.release('throws.many'));
  seen.print('stats', await outbox.stats());
  await seen.failure('operators: a filter with secrets', () => outbox.requeue({ cards: [CANARY.payload] } as never));
  await seen.failure('operators: ids with secrets', () => outbox.cancel({ ids: [CANARY.payload] }));
}

/** The database refuses what the relay writes, and then it is away. @param prefix of the tables */
export async function failingStore(
  outbox: OutboxService,
  { seen, admin, proxy }: Surroundings & { admin: DataSource },
  prefix: string,
): Promise<void> {
  const parked = `alter table ${prefix}parked`;
  await admin.query(`delete from ${prefix}parked where type = 'throws.json'`);
  await admin.query(`${parked} add constraint ${prefix}refuses check (type <> 'throws.json')`);
  await seen.another('park fails', 'error', { operation: 'park' }, () =>
    outbox.enqueueOutsideTransaction(secret({ type: 'throws.json', key: 'parked' })),
  );
  await admin.query(`${parked} drop constraint ${prefix}refuses`);
  await seen.another('a read fails', 'error', { operation: 'fetch' }, () => proxy.refuse().then(() => proxy.cut()));
  await seen.failure('enqueue: the database is away', () => outbox.enqueueOutsideTransaction(secret()));
  await seen.failure('stats: the database is away', () => outbox.stats());
  seen.print('health, the database is away', await outbox.health());
  await proxy.accept();
  await seen.until('the database is back', async () => (await outbox.health()).relay.storeDownFor === null);
}

/** Last, as the relay gives back what it cannot vouch for, and without leases it reads nothing. */
export async function failingLeases(seen: Seen, admin: DataSource): Promise<void> {
  await seen.another('a lease fails', 'error', { operation: 'lease' }, () =>
    admin.query('alter table outbox_leases rename to gone'),
  );
  await admin.query('alter table gone rename to outbox_leases');
}
