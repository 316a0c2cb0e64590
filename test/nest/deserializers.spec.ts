import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type PayloadDeserializer,
} from '../../lib/index.js';
import { jsonSerializer } from '../../lib/message/json-serializer.js';
import { describeWith } from '../support/services.js';
import { useApplications, build, quiet, typeOrm } from './support/app.js';

@OutboxEvent({ type: 'price.changed', topic: 'prices', key: (e) => e.item })
class PriceChanged {
  constructor(
    readonly item: string,
    readonly cents: number,
  ) {}
}

/** `item;cents`, as another program writes it. */
const csv: PayloadDeserializer = {
  contentType: 'text/csv',
  async deserialize(bytes) {
    const [item, cents, ...rest] = Buffer.from(bytes).toString('utf8').split(';');
    if (cents === undefined || rest.length > 0) throw new Error('no line of two fields');
    return { item, cents: Number(cents) };
  },
};

describeWith('postgres', 'payloads that others encoded', () => {
  const { applications, database } = useApplications();

  async function start(deserializers: PayloadDeserializer[]) {
    const seen: unknown[] = [];
    @Injectable()
    class Shelves {
      @OnOutboxEvent(PriceChanged)
      label(event: PriceChanged): void {
        seen.push(event);
      }
    }
    const options = quiet({
      relay: 'manual',
      transports: { default: inProcess() },
      retry: { initial: 1, max: 1, maxAttempts: 2 },
      serializer: [jsonSerializer, ...deserializers],
    });
    const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)], [Shelves]));
    const outbox = app.get(OutboxService);
    const send = (payload: unknown, contentType?: string) =>
      outbox.enqueueOutsideTransaction({
        type: 'price.changed',
        topic: 'prices',
        key: null,
        payload,
        ...(contentType === undefined ? {} : { contentType }),
      });
    return { outbox, seen, send, drain: () => app.get(OutboxDispatcher).drain() };
  }

  it('become events of the class by their content type, in one batch with JSON; what nobody reads stays bytes', async () => {
    const { seen, send, drain } = await start([csv]);
    await send({ item: 'a', cents: 1 });
    await send('b;2', 'text/csv');
    await send('c;3', 'Text/CSV; charset=utf-8');
    await send(Buffer.from('d,4'), 'application/x-unknown');
    await send(null, 'text/csv');
    expect(await drain()).toEqual({ published: 5, retried: 0, dead: 0 });
    expect(seen).toEqual(
      expect.arrayContaining([
        new PriceChanged('a', 1),
        new PriceChanged('b', 2),
        new PriceChanged('c', 3),
        Buffer.from('d,4'),
        null,
      ]),
    );
    expect(seen.filter((event) => event instanceof PriceChanged)).toHaveLength(3);
  });

  it('that cannot be read are the failure of their message alone', async () => {
    const { outbox, seen, send, drain } = await start([csv]);
    await send('broken', 'text/csv');
    await send('e;5', 'text/csv');
    expect(await drain()).toEqual({ published: 1, retried: 1, dead: 1 });
    expect(seen).toEqual([new PriceChanged('e', 5)]);
    await outbox.discard({ type: 'price.changed' });
  });
});
