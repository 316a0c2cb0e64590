/** Compiled, never run: each `@ts-expect-error` is a mistake that must not compile. */
import type { EntityManager, QueryRunner, Repository } from 'typeorm';
import {
  type EnqueueReport,
  type ChangeReport,
  type OperatorCount,
  type PlainMessage,
  type OutboxService,
  OutboxEvent,
} from '../../lib/index.js';

@OutboxEvent({
  type: 'order.placed',
  key: (e) => e.orderId,
  topic: (e) => `orders-${e.total.toFixed()}`,
  headers: (e) => ({ id: e.orderId, bytes: new Uint8Array(), many: ['a', e.orderId] }),
  payload: (e) => e.total,
  revive: (payload) => new OrderPlaced(payload as string, 1),
  retry: { initial: '2s', maxAttempts: null },
})
export class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly total: number,
  ) {}
}

@OutboxEvent({ type: 'private.constructor', key: (e) => e.id })
export class Private {
  private constructor(readonly id: string) {}
  static of(id: string): Private {
    return new Private(id);
  }
}

@OutboxEvent({ type: 'nullable.key', key: (e) => e.id })
export class NullableKey {
  constructor(readonly id: string | null) {}
}

// @ts-expect-error a member that the class does not have
@OutboxEvent({ type: 'a', key: (e) => e.nope })
export class UnknownMember {
  constructor(readonly id: string) {}
}
// @ts-expect-error a key is text
@OutboxEvent({ type: 'a', key: (e) => e.id })
export class NumberKey {
  constructor(readonly id: number) {}
}
// @ts-expect-error undefined is not an answer: null says unordered
@OutboxEvent({ type: 'a', key: (e) => e.id })
export class OptionalKey {
  constructor(readonly id?: string) {}
}
// @ts-expect-error header values are text or bytes
@OutboxEvent({ type: 'a', headers: (e) => ({ n: e.id }) })
export class NumberHeader {
  constructor(readonly id: number) {}
}
// @ts-expect-error no type
@OutboxEvent({ topic: 'a' })
export class NoType {}
// @ts-expect-error not an option
@OutboxEvent({ type: 'a', topik: 'a' })
export class Misspelt {}
// @ts-expect-error not a duration
@OutboxEvent({ type: 'a', retry: { initial: '5 minutes' } })
export class BadDuration {}
// @ts-expect-error revive makes another class
@OutboxEvent({ type: 'a', revive: () => new OrderPlaced('', 1) })
export class WrongRevive {
  readonly other = 1;
}
// @ts-expect-error options written for another class
@OutboxEvent<OrderPlaced>({ type: 'a', key: (e) => e.orderId })
export class OtherClass {
  readonly other = 1;
}

interface Some<T extends object> {
  readonly object: object;
  readonly record: Record<string, unknown>;
  readonly generic: T;
  readonly plain: PlainMessage;
}

export async function calls<T extends object>(
  outbox: OutboxService,
  narrow: OutboxService<OrderPlaced>,
  manager: EntityManager,
  runner: QueryRunner,
  repository: Repository<object>,
  some: Some<T>,
): Promise<void> {
  const event = new OrderPlaced('1', 2);
  const one: string = await outbox.enqueue(event, { manager });
  const many: string[] = await outbox.enqueue([event, { type: 'x', payload: 1 }], { manager: runner });
  const withOne: string = await outbox.with(repository.manager).enqueue(event);
  const withMany: string[] = await outbox.with(runner).enqueue([event]);
  const outside: string = await outbox.enqueueOutsideTransaction(event, { delay: '5m' });
  const report: EnqueueReport = await outbox.enqueue(event, { manager, dedupKey: 'k', report: true });
  const reports: EnqueueReport[] = await outbox.enqueueOutsideTransaction([event], { report: true });
  const result: number = await outbox.transaction(async (m) => m.count(OrderPlaced), { isolation: 'SERIALIZABLE' });
  const bound: number = outbox.bind(manager, () => 1);
  await narrow.enqueue(event);
  await narrow.enqueue({ type: 'x', payload: 1 });
  // @ts-expect-error this outbox takes only OrderPlaced and plain messages
  await narrow.enqueue(Private.of('1'));
  // @ts-expect-error an array gives an array
  const wrong: string = await outbox.enqueue([event]);
  // @ts-expect-error a repository is no manager
  await outbox.enqueue(event, { manager: repository });
  // @ts-expect-error the manager is said already
  await outbox.with(manager).enqueue(event, { manager });
  // @ts-expect-error there is no transaction to name
  await outbox.enqueueOutsideTransaction(event, { manager });
  // @ts-expect-error neither an event class nor a plain message: it has no type
  await outbox.enqueue({ typ: 'x', payload: 1 });
  // @ts-expect-error a misspelt member of a plain message
  await outbox.enqueue({ type: 'x', payload: 1, topik: 'x' });
  // @ts-expect-error the same in an array
  await outbox.enqueue([{ typ: 'x' }]);
  // @ts-expect-error and beside what is one
  await outbox.enqueue([event, { typ: 'x' }]);
  // @ts-expect-error and beside a plain message
  await outbox.enqueue([{ type: 'x', payload: 1 }, { typ: 'x' }]);
  // @ts-expect-error and outside a transaction
  await outbox.enqueueOutsideTransaction({ typ: 'x' });
  // @ts-expect-error and with a manager that was given before
  await outbox.with(manager).enqueue({ typ: 'x' });
  // What has a type of its own is taken; whether its class is decorated is seen when it is called.
  await outbox.enqueue(some.object);
  await outbox.enqueue(some.record);
  await outbox.enqueue(some.generic);
  await outbox.enqueue([some.plain, some.generic, event, Private.of('1')]);
  // @ts-expect-error text is no event
  await outbox.enqueue('event');
  // @ts-expect-error not an isolation level
  await outbox.transaction(async () => 1, { isolation: 'HIGH' });
  await outbox.requeue({ type: 'order.placed' }, { limit: 5, by: 'ann' });
  const { count }: OperatorCount = await outbox.discard({ state: ['dead', 'blocked'] }, { dryRun: true });
  const { done }: ChangeReport = await outbox.requeue({ type: 'order.placed', state: 'dead' });
  // @ts-expect-error not a state
  await outbox.requeue({ state: 'deaf' });
  // @ts-expect-error an option, not a condition
  await outbox.cancel({ type: 'order.placed', dryRun: true });
  // @ts-expect-error not a condition
  await outbox.requeue({ status: 'dead' });
  outbox.events.on('published', ({ ids }) => ids.length);
  // @ts-expect-error not an event
  outbox.events.on('publish', () => undefined);
  void [one, many, withOne, withMany, outside, report, reports, result, bound, wrong, count, done];
}
