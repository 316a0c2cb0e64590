// @tier gate
import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxError,
  OutboxModule,
  OutboxPermanentError,
  OutboxService,
  OutboxTransport,
  PUBLISHED,
  type OutboxEventMap,
  type OutboxMessage,
  type OutboxOptions,
  type PublishFailure,
  type PublishResult,
} from 'nestjs-outbox';
import { isPermanent } from '../../../lib/outbox.errors.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import { InProcessTransport } from '../../../lib/transports/in-process/in-process.js';
import { describeWith } from '../../support/services.js';
import { gate, stored, turn } from '../../support/transport-relay.js';
import { build, OrderPlaced, quiet, typeOrm, until, useApplications } from '../support/app.js';

class CustomerDeleted extends OutboxPermanentError {}
const wrapped = (cause: unknown) => new Error('could not bill', { cause });

it('is found among causes that are a circle, or that cannot be read', () => {
  const circle = new Error('around');
  circle.cause = new Error('and around', { cause: circle });
  const closed = Object.defineProperty(new Error('closed'), 'cause', { get: () => assertNever() });
  const never = new CustomerDeleted('gone');
  expect([circle, closed, new AggregateError([]), wrapped('text'), 'text', null].some((one) => isPermanent(one))).toBe(
    false,
  );
  expect([never, wrapped(wrapped(never)), new AggregateError([never])].every((one) => isPermanent(one))).toBe(true);
  expect(never).toBeInstanceOf(OutboxError);
  expect(never).toMatchObject({ code: 'PERMANENT', name: 'CustomerDeleted' });
});
function assertNever(): never {
  throw new Error('nobody may look');
}

it('does not end a message while another handler of it still runs', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
  const slow = gate();
  const handlers = new InProcessHandlers();
  handlers.add({ id: 'slow', type: 't', version: undefined, call: () => slow.opened });
  handlers.add({ id: 'never', type: 't', version: undefined, call: () => Promise.reject(new CustomerDeleted('gone')) });
  const [transport, message] = [new InProcessTransport(handlers, 10), stored()];
  const failure = async (): Promise<PublishFailure> => {
    const results: PublishResult[] = [];
    const report = (_index: number, result: PublishResult): void => void results.push(result);
    const done = transport.publish([message], { signal: new AbortController().signal, timeout: 300, report });
    await jest.advanceTimersByTimeAsync(300);
    await done;
    return results[0] as PublishFailure;
  };
  const first = await failure();
  expect([first.blame, isPermanent(first.error)]).toEqual(['message', false]);
  expect(await failure()).toMatchObject({ blame: 'transport', suspect: 'handler', destination: 'handler "slow"' });
  slow.open();
  await turn();
  const last = await failure();
  expect([last.blame, isPermanent(last.error)]).toEqual(['message', true]);
  jest.useRealTimers();
});

describeWith('postgres', 'what can never succeed', () => {
  const { applications, database } = useApplications('postgres', 'test');
  const start = async (transport: OutboxOptions['transports'][string], providers: any[] = []) => {
    const options = quiet({ relay: 'manual', transports: { default: transport }, retry: { initial: 1, max: 1 } });
    const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)], providers));
    const outbox = app.get(OutboxService);
    const deaths: OutboxEventMap['dead'][] = [];
    outbox.events.on('dead', (death) => deaths.push(death));
    return { outbox, deaths, dispatcher: app.get(OutboxDispatcher) };
  };

  it('is dead at its first failure, when a handler says so itself or by the cause', async () => {
    @Injectable()
    class Billing {
      @OnOutboxEvent(OrderPlaced)
      bill({ orderId }: OrderPlaced): void {
        throw orderId === '1' ? new CustomerDeleted('gone') : wrapped(new CustomerDeleted('gone'));
      }
    }
    const { outbox, deaths, dispatcher } = await start(inProcess(), [Billing]);
    await outbox.enqueueOutsideTransaction([new OrderPlaced('1'), new OrderPlaced('2')]);
    expect(await dispatcher.drain()).toEqual({ published: 0, retried: 0, dead: 2 });
    await until(() => deaths.length === 2);
    expect(deaths.map(({ attempts }) => attempts)).toEqual([1, 1]);
    expect(deaths[0]?.error).toMatch(/Failed: Billing\.bill at .*HANDLER_FAILED.*gone.*PERMANENT/);
  });

  it('waits for the other handlers of its message to succeed', async () => {
    const calls: string[] = [];
    @Injectable()
    class Shop {
      fails = 2;
      @OnOutboxEvent(OrderPlaced)
      never(): void {
        calls.push('never');
        throw new CustomerDeleted('gone');
      }
      @OnOutboxEvent(OrderPlaced)
      async soon(): Promise<void> {
        calls.push('soon');
        if (this.fails-- > 0) throw new Error('not yet');
      }
    }
    const { outbox, dispatcher } = await start(inProcess(), [Shop]);
    await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(async () => (await dispatcher.runOnce()).dead === 1);
    expect(calls).toEqual(['never', 'soon', 'never', 'soon', 'never', 'soon']);
  });

  it('is found among its neighbours when a transport throws it', async () => {
    const batches: number[] = [];
    class Picky extends OutboxTransport {
      override readonly receipt = 'broker';
      override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
        batches.push(batch.length);
        if (batch.some(({ key }) => key === '3')) throw new CustomerDeleted('no such customer');
        return batch.map(() => PUBLISHED);
      }
    }
    const { outbox, deaths, dispatcher } = await start(new Picky());
    await outbox.enqueueOutsideTransaction(['1', '2', '3', '4'].map((id) => new OrderPlaced(id)));
    const done = { published: 0, dead: 0 };
    await until(async () => {
      const { published, dead } = await dispatcher.runOnce();
      done.published += published;
      done.dead += dead;
      return done.published + done.dead === 4;
    });
    expect(done).toEqual({ published: 3, dead: 1 });
    expect(Math.max(...batches)).toBeGreaterThan(1);
    await until(() => deaths.length === 1);
    expect(deaths[0]).toMatchObject({ attempts: 1, error: expect.stringContaining('no such customer') });
  });
});
