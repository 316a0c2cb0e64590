import type { INestApplicationContext } from '@nestjs/common';
import { OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import {
  build,
  CollectingTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
  useApplications,
} from '../../nest/support/app.js';
import { diagnose } from '../../support/doctor.js';
import { describeOnEach } from '../../support/services.js';

describeOnEach([], 'for how long the broker may be down', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const start = (options: Partial<OutboxOptions> = { relay: false }) =>
    applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet(options))]));
  const enqueue = async (app: INestApplicationContext, count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced(`k${n}`));
  };

  it('by the backlog: the rate since its oldest message, the size of its messages, the room that is left', async () => {
    const app = await start();
    const began = performance.now();
    await enqueue(app, 100);
    const { outage } = await diagnose(app, { freeBytes: 10 ** 9, tableBytes: 10 ** 9 });
    const most = (performance.now() - began) / 1_000;
    const { rate, messageBytes, limits, lasts } = outage ?? {};
    expect(rate?.how).toMatch('since the oldest message of the last hour');
    expect(rate?.over).toBeLessThanOrEqual(Math.ceil(most * 10) / 10);
    expect(Number(rate?.perSecond) * Number(rate?.over)).toBeGreaterThan(90);
    expect(Number(rate?.perSecond) * Number(rate?.over)).toBeLessThan(110);
    expect(messageBytes).toBeGreaterThan(150);
    expect(messageBytes).toBeLessThan(1_000);
    expect(limits?.map(({ limit }) => limit)).toEqual(['tableBytes', 'disk', 'numbers']);
    const expected = 10 ** 9 / (Number(rate?.perSecond) * Number(messageBytes));
    expect(lasts).toBeGreaterThan(expected * 0.95);
    expect(lasts).toBeLessThanOrEqual(Math.ceil(expected));
  });

  it('while messages go out at once: numbers that were given out between two looks', async () => {
    const transport = new CollectingTransport();
    const app = await start({ transports: { default: transport } });
    await enqueue(app, 1);
    await until(() => transport.ids.length === 1);
    const stop = { now: false };
    const writing = (async () => {
      while (!stop.now) await enqueue(app, 1);
    })();
    const before = transport.ids.length;
    let rate: { perSecond: number; over: number; how: string } | null | undefined;
    await until(async () => {
      rate = (await diagnose(app, { measureFor: '1s' })).outage?.rate;
      return rate?.how === 'numbers given out between two looks' && rate.perSecond > 1;
    });
    stop.now = true;
    await writing;
    expect(rate?.over).toBeGreaterThanOrEqual(1);
    expect(Number(rate?.perSecond) * Number(rate?.over)).toBeLessThanOrEqual(transport.ids.length - before + 1_000);
  });
});
