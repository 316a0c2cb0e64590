// @tier gate
import { Injectable, Module } from '@nestjs/common';
import { DataSource, type QueryRunner } from 'typeorm';
import { inProcess, OnOutboxEvent, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { FakeClock, outboxTesting, overrideOutbox } from '../../lib/testing/index.js';
import { describeOnEach, describeWith } from '../support/services.js';
import { build, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

/** As production has it: a relay that runs and a broker that nobody may touch in a test. */
const production = (): OutboxOptions => ({
  ...quiet(),
  relay: true,
  transports: {
    default: {
      kind: 'kafka',
      receipt: 'broker',
      limits: { topicBytes: 249 },
      create: () => {
        throw new Error('a test reached the broker');
      },
    },
    local: inProcess(),
  },
});

describeOnEach([], 'nestjs-outbox/testing', (kind) => {
  const { applications, database } = useApplications(kind);

  const app = () => build([typeOrm(database), OutboxModule.forRoot(production())]);

  it('replaces transports, starts no relay, and publishes on drain', async () => {
    const module = await applications.start(overrideOutbox(app()));
    const testing = outboxTesting(module);
    const outbox = module.get(OutboxService);
    await outbox.transaction(() => outbox.enqueue([new OrderPlaced('1', 10), new OrderPlaced('2', 20)]));
    expect(testing.expectEnqueued(OrderPlaced, { total: 20 })).toMatchObject({
      key: '2',
      topic: 'orders',
      transport: 'default',
    });
    expect(testing.published()).toEqual([]);
    expect(await testing.drain()).toMatchObject({ published: 2 });
    expect(testing.expectPublished('order.placed', { orderId: '1' }).payload).toEqual({ orderId: '1', total: 10 });
    expect(() => testing.expectPublished(OrderPlaced, { orderId: '3' })).toThrow(
      /No 'order\.placed' was published with \{ orderId: '3' \}; there are/,
    );
    expect(() => testing.expectPublished('nothing')).toThrow(
      "No 'nothing' was published; there are: [ 'order.placed' ]",
    );
    const at = new Date();
    await outbox.enqueueOutsideTransaction({ type: 'dated', key: null, payload: { at, by: new OrderPlaced('1') } });
    await testing.drain();
    const dated = { at: new Date(at), by: new OrderPlaced('1') };
    expect(testing.expectEnqueued('dated', dated)).toEqual(testing.expectPublished('dated', dated));
    testing.clear();
    expect([...testing.published(), ...testing.enqueued()]).toEqual([]);
    await expect(
      outbox.transaction(() => outbox.enqueue({ type: 't', topic: 'x'.repeat(250), key: null, payload: 1 })),
    ).rejects.toThrow(/topic/);
  });

  it('forgets what was rolled back, and sees nothing before the commit', async () => {
    const module = await applications.start(overrideOutbox(app()));
    const testing = outboxTesting(module);
    const outbox = module.get(OutboxService);
    await outbox.transaction(async () => {
      await outbox.enqueue(new OrderPlaced('1'));
      expect(testing.enqueued()).toEqual([]);
    });
    expect(testing.enqueued()).toHaveLength(1);
    await outbox
      .transaction(async () => {
        await outbox.enqueue(new OrderPlaced('2'));
        throw new Error('no');
      })
      .catch(() => {});
    expect(testing.enqueued()).toHaveLength(1);
    await testing.drain();
  });

  it('O4: names the message that a duplicate was taken for', async () => {
    const module = await applications.start(overrideOutbox(app()));
    const testing = outboxTesting(module);
    const outbox = module.get(OutboxService);
    const id = await outbox.enqueueOutsideTransaction(new OrderPlaced('1'), { dedupKey: 'k' });
    expect(testing.deduplicated()).toEqual([]);
    await outbox.enqueueOutsideTransaction(new OrderPlaced('2'), { dedupKey: 'k' });
    expect(testing.deduplicated()).toEqual([id]);
    expect(testing.enqueued()).toHaveLength(1);
    testing.clear();
    expect(testing.deduplicated()).toEqual([]);
    await testing.drain();
  });

  describe('capture, in a suite that rolls back each test', () => {
    let runner: QueryRunner;
    afterEach(async () => {
      if (!runner.isReleased) await runner.release();
    });

    it('records at enqueue and honours savepoints and the final rollback', async () => {
      const module = await applications.start(overrideOutbox(app(), { capture: true }));
      const testing = outboxTesting(module);
      const outbox = module.get(OutboxService);
      runner = module.get(DataSource).createQueryRunner();
      await runner.connect();
      await runner.startTransaction();
      await outbox.enqueue(new OrderPlaced('outer'), { manager: runner.manager });
      await runner.startTransaction();
      await outbox.enqueue(new OrderPlaced('lost'), { manager: runner.manager });
      await runner.rollbackTransaction();
      await runner.startTransaction();
      await outbox.enqueue(new OrderPlaced('inner'), { manager: runner.manager });
      await runner.commitTransaction();
      expect(testing.enqueued().map(({ key }) => key)).toEqual(['outer', 'inner']);
      testing.expectEnqueued(OrderPlaced, { orderId: 'inner' });
      await runner.rollbackTransaction();
      expect(testing.enqueued()).toEqual([]);
      expect(await testing.drain()).toMatchObject({ published: 0 });
    });
  });
});

describeWith('postgres', 'nestjs-outbox/testing', () => {
  const { applications, database } = useApplications();

  it('fails, hangs and waits when it is told', async () => {
    const builder = build([
      typeOrm(database),
      OutboxModule.forRoot({ ...production(), publishTimeout: '20s', retry: { initial: 1, max: 1 } }),
    ]);
    const module = await applications.start(overrideOutbox(builder));
    const testing = outboxTesting(module);
    const outbox = module.get(OutboxService);
    const transport = testing.transport();
    transport.fail({ times: 1, when: ({ key }) => key === 'bad' });
    await outbox.transaction(() => outbox.enqueue([new OrderPlaced('good'), new OrderPlaced('bad')]));
    await until(async () => (await testing.drain()).published === 0 && testing.published().length === 2);
    expect(transport.attempts.filter(({ key }) => key === 'bad')).toHaveLength(2);
    testing.clear();

    transport.fail({ final: true, error: new Error('poison') });
    await outbox.transaction(() => outbox.enqueue(new OrderPlaced('dead')));
    expect(await testing.drain()).toMatchObject({ dead: 1 });
    expect((await outbox.stats()).transports['default']).toMatchObject({ dead: 1 });
    testing.clear();

    const open = transport.gate();
    await outbox.transaction(() => outbox.enqueue(new OrderPlaced('gated')));
    const drained = testing.drain();
    await until(() => transport.waiting === 1);
    open();
    expect(await drained).toMatchObject({ published: 1 });
  });

  it('keeps transports on request, for tests of handlers', async () => {
    const calls: string[] = [];
    @Injectable()
    class Handler {
      @OnOutboxEvent({ type: 'local.event' })
      handle(event: { n: string }): void {
        calls.push(event.n);
      }
    }
    const builder = build([typeOrm(database), OutboxModule.forRoot(production())], [Handler]);
    const module = await applications.start(overrideOutbox(builder, { keep: ['local'] }));
    const outbox = module.get(OutboxService);
    await outbox.transaction(() =>
      outbox.enqueue({ type: 'local.event', topic: 't', key: null, payload: { n: 'x' }, transport: 'local' }),
    );
    await outboxTesting(module).drain();
    expect(calls).toEqual(['x']);
  });

  it('gives the bytes of what is labelled JSON and is none: of a producer of bytes, and what brokers get encrypted', async () => {
    const reversed = (bytes: Uint8Array): Buffer => Buffer.from(bytes).reverse();
    const encryption: OutboxOptions['encryption'] = {
      encrypt: (plaintext) => ({ keyId: 'k', ciphertext: reversed(plaintext) }),
      decrypt: ({ ciphertext }) => reversed(ciphertext),
      deliver: 'encrypted',
    };
    const cut = { type: 'cut', payload: Buffer.from('{"a'), contentType: 'application/json' };
    for (const options of [{}, { encryption }]) {
      const builder = build([typeOrm(database), OutboxModule.forRoot(production())]);
      const module = await applications.start(overrideOutbox(builder, { options }));
      const testing = outboxTesting(module);
      await module.get(OutboxService).enqueueOutsideTransaction([cut, new OrderPlaced('1', 10)]);
      testing.expectEnqueued(OrderPlaced);
      await testing.drain();
      const payloads = ['cut', 'order.placed'].map((type) => testing.expectPublished(type).payload);
      expect(payloads).toEqual(
        'encryption' in options
          ? [reversed(cut.payload), reversed(Buffer.from('{"orderId":"1","total":10}'))]
          : [cut.payload, { orderId: '1', total: 10 }],
      );
      await applications.close();
    }
  });

  it('overrides a named outbox and its options', async () => {
    const broken = { ...production(), database: { setup: 'check' as const, prefix: 'named_' } };
    @Module({ imports: [OutboxModule.forRoot({ ...broken, name: 'audit' })] })
    class Audit {}
    const builder = build([typeOrm(database), Audit]);
    const options = { database: { setup: 'create' as const, prefix: 'named_' } };
    const module = await applications.start(overrideOutbox(builder, { name: 'audit', options }));
    const testing = outboxTesting(module, 'audit');
    await module.get<OutboxService>('Outbox(audit).service').enqueueOutsideTransaction(new OrderPlaced('1'));
    await testing.drain();
    testing.expectPublished(OrderPlaced);
    expect(() => outboxTesting(module)).toThrow();
  });

  it('says what is missing when the outbox was not overridden', async () => {
    const module = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false }))]));
    expect(() => outboxTesting(module)).toThrow('Call overrideOutbox(builder) before compile().');
  });
});

describe('FakeClock', () => {
  it('fires in order, at the time, including what fires meanwhile', async () => {
    const clock = new FakeClock(1_000);
    const seen: [string, number][] = [];
    const note = (name: string): void => void seen.push([name, clock.wall()]);
    clock.after(20, () => note('b'));
    clock.after(10, () => {
      note('a');
      void Promise.resolve().then(() => clock.after(5, () => note('a2')));
    });
    clock.after(30, () => note('c'))();
    expect(clock.nextIn).toBe(10);
    await clock.advance(100);
    expect(seen).toEqual([
      ['a', 1_010],
      ['a2', 1_015],
      ['b', 1_020],
    ]);
    expect([clock.pending, clock.nextIn, clock.monotonic()]).toEqual([0, undefined, 100]);
  });
});
