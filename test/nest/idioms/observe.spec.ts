// @tier gate
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { firstValueFrom } from 'rxjs';
import { OutboxDispatcher, OutboxModule, OutboxService } from 'nestjs-outbox';
import { fromOutbox, OutboxChannels } from 'nestjs-outbox/observe';
import { describeWith } from '../../support/services.js';
import { build, OrderPlaced, quiet, typeOrm, until, useApplications } from '../support/app.js';

describeWith('postgres', 'events of an outbox', () => {
  const { applications, database } = useApplications('postgres', 'test');
  const start = async (providers: any[] = []) => {
    const modules = [typeOrm(database), OutboxModule.forRoot(quiet({ relay: 'manual' }))];
    const app = await applications.start(build(modules, providers));
    const outbox = app.get(OutboxService);
    const publish = async (orderId: string): Promise<string> => {
      const id = await outbox.enqueueOutsideTransaction(new OrderPlaced(orderId));
      await app.get(OutboxDispatcher).drain();
      return id;
    };
    return { outbox, publish };
  };

  it('are an Observable, which listens while somebody is subscribed', async () => {
    const { outbox, publish } = await start();
    const isHeard = (): boolean => outbox.runtime.hooks.has('published');
    const published = fromOutbox(outbox, 'published');
    expect(isHeard()).toBe(false);
    const all: string[] = [];
    const subscription = published.subscribe(({ ids }) => all.push(...ids));
    const first = firstValueFrom(published);
    const ids = [await publish('1'), await publish('2')];
    await until(() => all.length === 2);
    expect(all).toEqual(ids);
    expect((await first).ids).toEqual([ids[0]]);
    expect(isHeard()).toBe(true);
    subscription.unsubscribe();
    expect(isHeard()).toBe(false);
  });

  it('are told on channels of node:diagnostics_channel, from the start on', async () => {
    const told: [string, unknown][] = [];
    const hear = (message: unknown, name: string | symbol): void => void told.push([String(name), message]);
    const channels = ['started', 'enqueued', 'published'].map((name) => `nestjs-outbox:${name}`);
    for (const name of channels) subscribe(name, hear);
    try {
      const { publish } = await start([OutboxChannels]);
      const id = await publish('1');
      await until(() => told.length === 3);
      expect(told).toEqual([
        [channels[0], { outbox: 'default', event: expect.objectContaining({ role: 'manual' }) }],
        [channels[1], { outbox: 'default', event: { ids: [id] } }],
        [channels[2], { outbox: 'default', event: expect.objectContaining({ transport: 'default', ids: [id] }) }],
      ]);
      for (const name of channels) unsubscribe(name, hear);
      await publish('2');
      expect(told).toHaveLength(3);
    } finally {
      for (const name of channels) unsubscribe(name, hear);
    }
  });
});
