import type { ModuleMetadata } from '@nestjs/common';
import { getOutboxToken, OutboxDispatcher, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { gate } from '../support/transport-relay.js';
import { describeWith } from '../support/services.js';
import { build, CollectingTransport, failure, quiet, typeOrm, until, useApplications } from './support/app.js';

/** More than the listeners of one signal that Node takes without a warning. */
const MANY = 11;
const NAMES = ['north', 'south', 'east', 'west'];

/** A broker that does not answer a close until it is let go. */
class Hanging extends CollectingTransport {
  constructor(
    readonly asked: () => void,
    readonly answer: Promise<void>,
  ) {
    super();
  }
  override async close(): Promise<void> {
    this.asked();
    await this.answer;
  }
}

describeWith('postgres', 'G3: several outboxes of one application', () => {
  const used = useApplications();
  let prefixes = 0;

  const outbox = (name: string, options: Partial<OutboxOptions>) =>
    OutboxModule.forRoot({
      name,
      ...quiet({ shutdownTimeout: '10m', ...options, database: { prefix: `s${++prefixes}_` } }),
      // Nothing of this file waits for a poll, or for the time of a stop.
      ...{ pollInterval: '1m', wakeUp: 'poll' },
    });
  const hanging = (names: readonly string[], log: string[], answer: Promise<void>) =>
    names.map((name) => outbox(name, { transports: { default: new Hanging(() => log.push(name), answer) } }));
  const start = (imports: NonNullable<ModuleMetadata['imports']>) =>
    used.applications.start(build([typeOrm(used.database), ...imports]));

  it('stop side by side: each broker is asked to close before the first outbox has stopped', async () => {
    const [asked, stopped, answer] = [[] as string[], [] as string[], gate()];
    const app = await start(hanging(NAMES, asked, answer.opened));
    const running = () =>
      NAMES.filter((name) => app.get<OutboxDispatcher>(getOutboxToken(name, OutboxDispatcher)).running);
    for (const name of NAMES) {
      app.get<OutboxService>(getOutboxToken(name)).events.on('stopped', () => void stopped.push(name));
    }
    expect(running()).toEqual(NAMES);
    const closed = app.close();
    await until(() => asked.length === NAMES.length).finally(() => answer.open());
    expect({ running: running(), stopped }).toEqual({ running: [], stopped: [] });
    await closed;
    expect(new Set(stopped)).toEqual(new Set(NAMES));
  });

  it('hear a second signal, all of them, through one listener', async () => {
    const names = Array.from({ length: MANY }, (_, index) => `tenant${index}`);
    const [asked, answer] = [[] as string[], gate()];
    const app = await start(hanging(names, asked, answer.opened));
    const application = (): void => undefined; // what `enableShutdownHooks()` leaves there
    process.on('SIGTERM', application);
    try {
      const before = process.listenerCount('SIGTERM');
      const closed = app.close();
      await until(() => asked.length === MANY);
      expect(process.listenerCount('SIGTERM')).toBe(before + 1);
      process.emit('SIGTERM');
      await closed;
      expect(process.listenerCount('SIGTERM')).toBe(before);
    } finally {
      answer.open();
      process.off('SIGTERM', application);
    }
  });

  it('start side by side: one that waits keeps no other from its work', async () => {
    const held = gate();
    const slow = outbox('slow', {
      transports: { default: { useFactory: () => held.opened.then(() => new CollectingTransport()) } },
    });
    const compiled = await build([typeOrm(used.database), slow, outbox('quick', {})]).compile();
    used.applications.open.push(compiled);
    const runs = (name: string) => compiled.get<OutboxDispatcher>(getOutboxToken(name, OutboxDispatcher)).running;
    const started = compiled.init();
    await until(() => runs('quick')).finally(() => held.open());
    await started;
    expect(runs('slow')).toBe(true);
  });

  it('fail together: the start ends with the error of the first that failed, and no other one goes on', async () => {
    const never = outbox('never', {
      transports: { default: { useFactory: () => new Promise<never>(() => undefined) } },
      shutdownTimeout: '100ms',
    });
    const broken = outbox('broken', {
      transports: { default: { useFactory: () => Promise.reject(new Error('no such broker')) } },
    });
    expect(await failure(build([typeOrm(used.database), outbox('fine', {}), never, broken]))).toMatchObject({
      message: 'no such broker',
    });
  });

  it('belong to their application: another one of the process goes on', async () => {
    const one = await start([outbox('one', {})]);
    const other = await start([outbox('other', {})]);
    await one.close();
    expect(other.get<OutboxDispatcher>(getOutboxToken('other', OutboxDispatcher)).running).toBe(true);
  });
});
