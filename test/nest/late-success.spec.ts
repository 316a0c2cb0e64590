import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
} from '../../lib/index.js';
import { describeOnEach } from '../support/services.js';
import { gate } from '../support/transport-relay.js';
import { build, quiet, typeOrm, until, useApplications } from './support/app.js';

describeOnEach([], 'a handler that is through after its message died', (kind) => {
  const used = useApplications(kind);
  let tables = 0;

  const start = async (provider: any, options: Partial<OutboxOptions> = {}) => {
    const own = {
      transports: { default: inProcess() },
      publishTimeout: 1_000,
      retry: { maxAttempts: 1 },
      database: { prefix: `k9_${++tables}_` },
    };
    const imports = [typeOrm(used.database), OutboxModule.forRoot(quiet({ ...own, ...options }))];
    const outbox = (await used.applications.start(build(imports, [provider]))).get(OutboxService);
    const told: string[] = [];
    outbox.events.on('dead', ({ id }) => void told.push(`dead ${id}`));
    outbox.events.on('published', ({ ids }) => void told.push(...ids.map((id) => `published ${id}`)));
    return { outbox, told };
  };

  const WAYS: Partial<OutboxOptions>[] = [
    {},
    { ordering: 'none', coordination: 'rowLock' },
    { ordering: 'global' },
    { onPublished: 'archive' },
  ];
  it.each(WAYS)('K9: settles it, its key goes on, and it is told: %j', async (way) => {
    const slow = gate();
    const begun: string[] = [];
    @Injectable()
    class Work {
      @OnOutboxEvent({ type: 'slow' })
      async slow(_event: unknown, message: OutboxMessage): Promise<void> {
        begun.push(message.id);
        await slow.opened;
      }
      @OnOutboxEvent({ type: 'next' })
      next(_event: unknown, message: OutboxMessage): void {
        begun.push(message.id);
      }
    }
    const { outbox, told } = await start(Work, way);
    const first = await outbox.enqueueOutsideTransaction({ type: 'slow', topic: 't', key: 'k', payload: {} });
    await until(async () => (await outbox.stats()).total.dead === 1);
    const next = await outbox.enqueueOutsideTransaction({ type: 'next', topic: 't', key: 'k', payload: {} });
    if (way.ordering !== 'none' && way.ordering !== 'global')
      await until(async () => (await outbox.stats()).total.blocked === 1);
    slow.open();
    await until(() => told.length === 3);
    expect(told.slice().sort()).toEqual([`dead ${first}`, `published ${first}`, `published ${next}`].sort());
    expect(begun).toEqual([first, next]);
    expect((await outbox.stats()).total).toMatchObject({ ready: 0, waiting: 0, blocked: 0, dead: 0 });
  });

  it('K9: what failed by itself stays dead, and so does what another handler failed', async () => {
    const slow = { well: gate(), badly: gate() };
    const ended: string[] = [];
    @Injectable()
    class Work {
      @OnOutboxEvent({ type: 'badly' })
      async badly(): Promise<void> {
        await slow.badly.opened;
        ended.push('badly');
        throw new Error('no');
      }
      @OnOutboxEvent({ type: 'both' })
      async well(): Promise<void> {
        await slow.well.opened;
        ended.push('well');
      }
      @OnOutboxEvent({ type: 'both' })
      fails(): void {
        throw new Error('no');
      }
      @OnOutboxEvent({ type: 'after' })
      after(): void {}
    }
    const { outbox, told } = await start(Work);
    await outbox.enqueueOutsideTransaction({ type: 'badly', topic: 't', key: 'a', payload: {} });
    await outbox.enqueueOutsideTransaction({ type: 'both', topic: 't', key: 'b', payload: {} });
    await until(async () => (await outbox.stats()).total.dead === 2);
    slow.well.open();
    slow.badly.open();
    await until(() => ended.length === 2);
    const after = await outbox.enqueueOutsideTransaction({ type: 'after', topic: 't', key: 'c', payload: {} });
    await until(() => told.includes(`published ${after}`));
    expect((await outbox.stats()).total.dead).toBe(2);
  });
});
