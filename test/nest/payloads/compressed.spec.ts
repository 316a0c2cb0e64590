// @tier gate
import { gunzipSync, gzipSync } from 'node:zlib';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import {
  compressed,
  inProcess,
  OnOutboxEvent,
  OutboxAdmin,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
} from '../../../lib/index.js';
import { outboxTesting, overrideOutbox, RecordingTransport } from '../../../lib/testing/index.js';
import { describeOnFewer } from '../../support/services.js';
import { build, quiet, typeOrm, useApplications } from '../support/app.js';
import { SealingEncryption } from '../support/sealing.js';

const LINES = Array.from({ length: 300 }, (_, n) => `line ${n} of an order`);
const GZIP = { 'content-encoding': 'gzip' };

@OutboxEvent({ type: 'order.placed', key: ({ orderId }) => orderId, transport: ['default', 'local'] })
class OrderPlaced {
  constructor(
    readonly orderId: string,
    readonly lines: readonly string[] = LINES,
  ) {}
  get count(): number {
    return this.lines.length;
  }
}
let handled: { event: OrderPlaced; message: OutboxMessage }[];
@Injectable()
class Warehouse {
  @OnOutboxEvent(OrderPlaced)
  pack(event: OrderPlaced, message: OutboxMessage): void {
    handled.push({ event, message });
  }
}
/** Shows what it is given. */
class Seen extends SealingEncryption {
  readonly plaintexts: Buffer[] = [];
  override encrypt(plaintext: Uint8Array, ...rest: [never]) {
    this.plaintexts.push(Buffer.from(plaintext));
    return super.encrypt(plaintext, ...rest);
  }
}

describeOnFewer([], 'a compressed payload', (kind) => {
  let transport: RecordingTransport;
  let app: TestingModule;
  let admin: OutboxAdmin;
  let outbox: OutboxService;
  const { applications, database } = useApplications(kind, 'test');
  beforeEach(() => {
    [transport, handled] = [new RecordingTransport(), []];
  });

  const module = (options: Partial<OutboxOptions> = {}) => [
    typeOrm(database),
    OutboxModule.forRoot(
      quiet({
        ...{ relay: 'manual', transports: { default: transport, local: inProcess() }, retry: { maxAttempts: 1 } },
        ...{ serializer: compressed(), onPublished: 'archive', ...options },
      }),
    ),
  ];
  const start = async (options?: Partial<OutboxOptions>): Promise<void> => {
    app = await applications.start(build(module(options), [Warehouse]));
    [admin, outbox] = [app.get(OutboxAdmin), app.get(OutboxService)];
  };
  const drain = () => app.get(OutboxDispatcher).drain();
  const jsonOf = ({ payload }: OutboxMessage): unknown => JSON.parse(gunzipSync(payload as Buffer).toString());
  /** Its state for the broker, with what it shows of its payload. */
  const shown = async (id: string) => (await admin.show(id, { payload: true })).transports.find(isForBroker)!;
  const isForBroker = (one: { transport: string }): boolean => one.transport === 'default';
  const dead = async (order = new OrderPlaced('1')): Promise<string> => {
    const back = transport.fail({ final: true });
    const id = await outbox.enqueueOutsideTransaction(order, { transport: 'default', headers: { tenant: 'a' } });
    await drain();
    back();
    return id;
  };
  const requeued = async (id: string): Promise<OutboxMessage> => {
    await outbox.requeue({ ids: [id] });
    await drain();
    return transport.published.at(-1)!;
  };

  it('is compressed for brokers, and for handlers the event that it was; a small one is neither', async () => {
    await start();
    const orders = [new OrderPlaced('1'), new OrderPlaced('2', ['one'])] as const;
    await outbox.enqueueOutsideTransaction(orders);
    expect(await drain()).toEqual({ published: 4, retried: 0, dead: 0 });
    const [large, small] = ['1', '2'].map((key) => transport.published.find((one) => one.key === key)!) as [
      OutboxMessage,
      OutboxMessage,
    ];
    expect([{ ...large.headers }, jsonOf(large)]).toEqual([GZIP, { ...orders[0] }]);
    expect(large.size).toBeLessThan(JSON.stringify(orders[0]).length / 4);
    expect([small.headers, String(small.payload)]).toEqual([{}, JSON.stringify(orders[1])]);
    const events = handled.sort((a, b) => Number(a.event.orderId) - Number(b.event.orderId)).map(({ event }) => event);
    expect(events).toEqual(orders);
    expect(events.map(({ count }) => count)).toEqual([300, 1]);
  });

  it('is compressed first and encrypted then, and so are the headers bound to it', async () => {
    const encryption = new Seen();
    await start({ encryption });
    await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    expect(encryption.plaintexts.map((bytes) => JSON.parse(gunzipSync(bytes).toString()))).toEqual([
      ...[{ ...new OrderPlaced('1') }, { ...new OrderPlaced('1') }],
    ]);
    expect(await drain()).toMatchObject({ published: 2 });
    expect(handled.map(({ event }) => event)).toEqual([new OrderPlaced('1')]);
    expect(jsonOf(transport.published[0]!)).toEqual({ ...new OrderPlaced('1') });
    const id = await dead();
    expect(await shown(id)).toMatchObject({ contentEncoding: 'gzip', encryptionKeyId: 'k' });
    await admin.edit(id, { payload: { ...new OrderPlaced('1'), orderId: 'mended' } });
    expect(jsonOf(await requeued(id))).toMatchObject({ orderId: 'mended' });
  });

  it('goes out as it was stored after a requeue, a replay and a restore', async () => {
    await start();
    const id = await dead();
    const first = await requeued(id);
    await admin.replay({ ids: [id] });
    await drain();
    const again = transport.published.at(-1)!;
    expect({ ...again.headers }).toEqual({ tenant: 'a', ...GZIP, 'replay-audit-id': expect.any(String) });
    expect(again.payload).toEqual(first.payload);
    const other = await dead();
    const { auditId } = await admin.edit(other, { payload: 'small', contentType: 'text/plain' });
    await admin.restore(other, auditId);
    const restored = await requeued(other);
    expect([restored.payload, { ...restored.headers }]).toEqual([first.payload, { tenant: 'a', ...GZIP }]);
  });

  it('is edited: the header goes with the bytes that it was of, and comes with those that need it', async () => {
    await start();
    const id = await dead();
    const edited = async (changes: object): Promise<string[]> =>
      (await admin.edit(id, changes)).differences.map(
        ({ what, after }) => `${what}${after === null ? ' removed' : ''}`,
      );
    expect(await edited({ headers: { tenant: 'b' }, topic: 'other' })).toEqual(['topic', 'header tenant']);
    expect(await shown(id)).toMatchObject({ contentEncoding: 'gzip' });
    expect(await edited({ payload: { ...new OrderPlaced('1', ['one']) } })).toEqual([
      ...['header content-encoding removed', 'payload'],
    ]);
    expect(await edited({ payload: { ...new OrderPlaced('2') } })).toEqual(['header content-encoding', 'payload']);
    expect(await edited({ payload: '{"a":1}', contentType: 'application/json' })).toHaveLength(2);
    expect(await edited({ payload: gzipSync('"by hand"'), headers: GZIP })).toHaveLength(2);
    expect(jsonOf(await requeued(id))).toBe('by hand');
  });

  it('has a header that no operator sets or removes by itself', async () => {
    await start();
    const id = await dead();
    for (const value of ['gzip', null])
      await expect(admin.edit(id, { headers: { 'content-encoding': value } })).rejects.toMatchObject({
        code: 'INVALID_MESSAGE',
        message: expect.stringContaining('the header content-encoding is set by the serializer alone'),
      });
  });

  it('is edited from a command line that has not the serializer: the header is gone', async () => {
    await start();
    const id = await dead();
    const own = quiet({ relay: 'manual', transports: { default: transport } });
    const bare = await applications.start(build([typeOrm(database), OutboxModule.forRoot(own)]));
    await bare.get(OutboxAdmin).edit(id, { payload: { orderId: '9' } });
    const { headers, payload } = await requeued(id);
    expect([{ ...headers }, String(payload)]).toEqual([{ tenant: 'a' }, '{"orderId":"9"}']);
  });

  it('is shown decompressed as far as its first bytes go, and said to be compressed', async () => {
    await start();
    const id = await dead(new OrderPlaced('1', [...LINES, ...LINES]));
    const { contentEncoding, payload, headers } = await shown(id);
    expect([contentEncoding, headers]).toEqual(['gzip', { tenant: '***', 'content-encoding': '***' }]);
    expect(payload).toMatchObject({ cut: true, text: expect.stringMatching(/^\{"orderId":"1","lines":\["line 0 of/) });
    expect(payload?.text).toHaveLength(1_024);
    const mislabelled = await outbox.enqueueOutsideTransaction(
      { type: 'x', payload: Buffer.from('no gzip'), headers: GZIP },
      { transport: 'default', delay: '1h' },
    );
    expect((await shown(mislabelled)).payload).toMatchObject({ text: 'no gzip', cut: false });
  });

  it('may come from another program, which sets the header itself', async () => {
    await start();
    const { transportIds } = outbox.runtime;
    const bytes = gzipSync(JSON.stringify({ ...new OrderPlaced('1') }));
    const [place, local] =
      kind === 'postgres' ? ['outbox_messages', 'local'] : ['outbox_ready', transportIds.get('local')];
    const [body, marks] = kind === 'postgres' ? ['payload_bytes', ['$1', '$2', '$3']] : ['payload', ['?', '?', '?']];
    const insert = `insert into ${place} (topic, type, transport, headers, ${body}) values ('o', 'order.placed', ${marks.join()})`;
    for (const each of [bytes, bytes.subarray(0, 20), Buffer.from('{}')])
      await app.get(DataSource).query(insert, [local, JSON.stringify(GZIP), each]);
    expect(await drain()).toEqual({ published: 1, retried: 0, dead: 2 });
    expect(handled.map(({ event }) => event)).toEqual([new OrderPlaced('1')]);
    const [one] = (await admin.find({ state: 'dead' })).messages;
    expect(one?.lastError).toMatch(/The payload is labelled gzip, and is none or is cut/);
  });

  it('is plain in tests', async () => {
    app = await applications.start(overrideOutbox(build(module(), [Warehouse])));
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    outboxTesting(app).expectEnqueued(OrderPlaced, { orderId: '1', lines: LINES });
    await outboxTesting(app).drain();
    outboxTesting(app).expectPublished(OrderPlaced, { orderId: '1', lines: LINES });
  });
});
