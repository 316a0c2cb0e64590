import { Injectable, type Type } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
} from '../../lib/index.js';
import { runtimeToken } from '../../lib/outbox.tokens.js';
import type { OutboxStore } from '../../lib/store/outbox-store.js';
import { describeOnEach } from '../support/services.js';
import { build, countedHealth, quiet, typeOrm, until, useApplications } from './support/app.js';
import { textsOf } from '../support/reasons.js';

const HOUR = 3_600_000;

describeOnEach([], 'a handler that is missing here', (kind) => {
  const used = useApplications(kind);
  let tables = 0;
  const fresh = (options: Partial<OutboxOptions> = {}): OutboxOptions =>
    quiet({
      relay: 'manual',
      transports: { default: inProcess() },
      retry: { initial: 1, max: 10, maxAttempts: 3 },
      database: { prefix: `k8_${++tables}_` },
      ...options,
    });
  const start = async (provider: Type, options: OutboxOptions) => {
    const app = await used.applications.start(
      build([typeOrm(used.database), OutboxModule.forRoot(options)], [provider]),
    );
    await app.get(OutboxDispatcher).start();
    const { store } = app.get<{ store: OutboxStore }>(runtimeToken('default'));
    return { outbox: app.get(OutboxService), relay: app.get(OutboxDispatcher), store };
  };

  /** Two instances, each with the handler of one type; what they handled, in order. */
  const startBoth = async (options: OutboxOptions) => {
    const handled: { readonly at: string; readonly message: OutboxMessage }[] = [];
    @Injectable()
    class WithX {
      @OnOutboxEvent({ type: 'x' })
      handle(_event: unknown, message: OutboxMessage): void {
        handled.push({ at: 'x', message });
      }
    }
    @Injectable()
    class WithY {
      @OnOutboxEvent({ type: 'y', version: 1 })
      handle(_event: unknown, message: OutboxMessage): void {
        handled.push({ at: 'y', message });
      }
    }
    const both = [await start(WithX, options), await start(WithY, options)] as const;
    await until(() => {
      both[0].relay.lookAtLeases();
      return both.every(({ relay }) => relay.status().transports[0]?.buckets.length === 16);
    });
    return { outbox: both[0].outbox, store: both[0].store, handled };
  };
  const message = (type: string, key: string) => ({ type, topic: 't', key, payload: {} });

  it('K8: costs no attempt while another instance has it, which gets the message', async () => {
    const { outbox, handled } = await startBoth(fresh());
    for (let n = 0; n < 200; n += 1)
      await outbox.enqueueOutsideTransaction(message(n % 2 === 0 ? 'x' : 'y', `k${n % 50}`));
    await until(() => handled.length === 200);
    expect(handled.filter((each) => each.at !== each.message.type)).toEqual([]);
    expect(handled.filter((each) => each.message.attempts > 0)).toEqual([]);
    expect(new Set(handled.map((each) => each.message.id)).size).toBe(200);
    expect((await outbox.stats()).total.dead).toBe(0);
  });

  it('K8: keeps the order of a key whose messages are handled in turn by two instances', async () => {
    const { outbox, handled } = await startBoth(fresh());
    const ids: string[] = [];
    for (const type of ['x', 'y', 'x', 'y']) ids.push(await outbox.enqueueOutsideTransaction(message(type, 'k')));
    await until(() => handled.length === 4);
    expect(handled.map((each) => each.message.id)).toEqual(ids);
  });

  it('K8: missing everywhere, is named by health, and the others go on; maxAge ends the wait', async () => {
    const retry = { initial: 1, max: 10, maxAttempts: 3, maxAge: HOUR };
    const { outbox, store, handled } = await startBoth(fresh({ retry }));
    const warnings: string[] = [];
    outbox.events.on('destinationAway', ({ destination }) => void warnings.push(destination));
    const ids: string[] = [];
    for (let n = 0; n < 60; n += 1) ids.push(await outbox.enqueueOutsideTransaction(message('nobody', `n${n}`)));
    await until(async () => (await outbox.stats()).total.waiting === 60);
    await outbox.enqueueOutsideTransaction(message('x', 'k'));
    await until(() => handled.length === 1);
    const health = await countedHealth(outbox);
    expect([health.status, health.transports['default']?.circuit]).toEqual(['degraded', 'closed']);
    expect(textsOf(health)).toContainEqual(expect.stringContaining('type "nobody" version 1 takes nothing'));
    expect(warnings).toContainEqual(expect.stringContaining('type "nobody" version 1'));
    // One that a relay is looking at grows no older: it does the next time.
    const isOver = async (): Promise<boolean> => {
      await store.aging?.age(ids, HOUR);
      return (await outbox.stats()).total.dead === 60;
    };
    await until(isOver, 60_000, 500);
  });
});
