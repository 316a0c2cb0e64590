import { Injectable, type Type } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
  type OutboxStore,
} from '../../lib/index.js';
import { runtimeToken } from '../../lib/outbox.tokens.js';
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

  const message = (type: string, key: string) => ({ type, topic: 't', key, payload: {} });

  const handled: OutboxMessage[] = [];
  @Injectable()
  class WithX {
    @OnOutboxEvent({ type: 'x' })
    handle(_event: unknown, message: OutboxMessage): void {
      handled.push(message);
    }
  }
  @Injectable()
  class WithY {
    @OnOutboxEvent({ type: 'y', version: 1 })
    handle(_event: unknown, message: OutboxMessage): void {
      handled.push(message);
    }
  }
  beforeEach(() => void (handled.length = 0));

  /** 60 messages that only the other application handles, which wait. */
  const startWithoutY = async (options: OutboxOptions) => {
    const started = await start(WithX, options);
    const { outbox } = started;
    const warnings: string[] = [];
    outbox.events.on('destinationAway', ({ destination }) => void warnings.push(destination));
    const ids: string[] = [];
    for (let n = 0; n < 60; n += 1) ids.push(await outbox.enqueueOutsideTransaction(message('y', `n${n}`)));
    await until(async () => (await outbox.stats()).total.waiting === 60);
    return { ...started, warnings, ids };
  };

  it('K8: is named by health, and the others go on; maxAge ends the wait', async () => {
    const retry = { initial: 1, max: 10, maxAttempts: 3, maxAge: HOUR };
    const { outbox, store, warnings, ids } = await startWithoutY(fresh({ retry }));
    await outbox.enqueueOutsideTransaction(message('x', 'k'));
    await until(() => handled.length === 1);
    const health = await countedHealth(outbox);
    expect([health.status, health.transports['default']?.circuit]).toEqual(['degraded', 'closed']);
    expect(textsOf(health)).toContainEqual(expect.stringContaining('type "y" version 1 takes nothing'));
    expect(warnings).toContainEqual(expect.stringContaining('type "y" version 1'));
    // One that a relay is looking at grows no older: it does the next time.
    const isOver = async (): Promise<boolean> => {
      await store.aging?.age(ids, HOUR);
      return (await outbox.stats()).total.dead === 60;
    };
    await until(isOver, 60_000, 500);
  });

  it('K8: costs no attempt; an instance that has it publishes what waits as soon as it has the bucket', async () => {
    const options = fresh();
    const { relay, ids } = await startWithoutY(options);
    await relay.stop();
    await start(WithY, options);
    await until(() => handled.length === 60);
    expect(handled.map(({ id }) => id).sort()).toEqual([...ids].sort());
    expect(handled.filter(({ attempts }) => attempts > 0)).toEqual([]);
  });
});
