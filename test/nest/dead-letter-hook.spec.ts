// @tier gate
import { OutboxModule, OutboxService, type OutboxOptions, type OutboxStore } from '../../lib/index.js';
import { runtimeToken } from '../../lib/outbox.tokens.js';
import { gate } from '../support/transport-relay.js';
import { describeOnEach } from '../support/services.js';
import { build, MoodyTransport, quiet, typeOrm, until, useApplications } from './support/app.js';

describeOnEach([], 'a dead-letter hook that is slower than publishTimeout', (kind) => {
  const used = useApplications(kind);

  it('K5: is called once per letter, and has told when it ends well at last; what it rejects is told again', async () => {
    const calls: string[] = [];
    const end = gate();
    const deadLetter: OutboxOptions['deadLetter'] = async ({ message: { topic } }) => {
      calls.push(topic);
      await end.opened;
      if (topic === 'bad' && calls.length === 3) throw new Error('no mail');
    };
    const outboxModule = OutboxModule.forRoot(
      quiet({
        transports: { default: new MoodyTransport() },
        retry: { maxAttempts: 1 },
        publishTimeout: 300,
        lease: '10s',
        deadLetter,
      }),
    );
    const app = await used.applications.start(build([typeOrm(used.database), outboxModule]));
    const outbox = app.get(OutboxService);
    const errors: unknown[] = [];
    outbox.events.on('error', ({ error }) => errors.push((error as Error).message));
    for (const topic of ['a', 'b', 'bad']) await outbox.enqueueOutsideTransaction({ type: 't', topic, payload: {} });
    const { dispatcher, store, enqueue } = app.get<Parts>(runtimeToken('default'));
    // Passes as the loop makes them, with nothing to wait for.
    await until(async () => (await dispatcher.deadLoop.runNow(), new Set(calls).size === 3 && errors.length >= 3));
    for (let i = 0; i < 5; i++) await dispatcher.deadLoop.runNow();
    expect([...calls].sort()).toEqual(['a', 'b', 'bad']);
    end.open();
    const recheck = async () => (await store.parked.unannouncedDead([...enqueue.transportIds.values()], 10)).length;
    await until(async () => (await recheck()) <= 1); // what it rejected may have been told again already
    await until(async () => (await dispatcher.deadLoop.runNow(), (await recheck()) === 0));
    expect([...calls].sort()).toEqual(['a', 'b', 'bad', 'bad']);
  });
});

interface Parts {
  readonly dispatcher: { readonly deadLoop: { runNow(): Promise<void> } };
  readonly store: Pick<OutboxStore, 'parked'>;
  readonly enqueue: { readonly transportIds: ReadonlyMap<string, number> };
}
