import { once } from 'node:events';
import { createTestDatabase } from '../support/databases.js';
import { startFile } from '../support/own-process.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';

export interface InstrumentedSettings {
  readonly url: string;
  readonly broker: string;
  readonly queue: string;
  readonly count: number;
}
type Sent = readonly (readonly [id: string, traceparent: string | null, traceId: string])[];

describeWith(['postgres', 'rabbitmq'], 'requests at once, under the instrumentation of amqplib', () => {
  it('N11: each message arrives with the traceparent of its own request, and one without it with nobody’s', async () => {
    const database = await createTestDatabase('postgres');
    const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const queue = await observer.queue();
    const settings: InstrumentedSettings = { url: database.url, broker: requiredUrl('rabbitmq'), queue, count: 40 };
    const child = startFile('test/processes/instrumented-process.ts', { INSTRUMENTED: JSON.stringify(settings) });
    try {
      const signal = AbortSignal.timeout(120_000);
      const [{ sent }] = (await once(child, 'message', { signal })) as [{ sent: Sent }];
      const found = await observer.receivedAll(
        queue,
        sent.map(([id]) => id),
      );
      const arrived = new Map(found.map(({ id, headers }) => [id, headers?.['traceparent'] as string | undefined]));
      const traces = new Set(sent.map(([, , traceId]) => traceId));
      for (const [id, traceparent] of sent) {
        const told = arrived.get(id);
        if (traceparent !== null) expect(told).toBe(traceparent);
        else expect(traces.has(told?.split('-')[1] ?? '')).toBe(false);
      }
      // The instrumentation is there: it gave those without a context one of its own.
      const without = sent.filter(([, traceparent]) => traceparent === null);
      expect(without.filter(([id]) => arrived.get(id) === undefined)).toEqual([]);
      const ended = once(child, 'exit', { signal });
      child.send('end');
      expect((await ended)[0]).toBe(0);
    } finally {
      child.kill('SIGKILL');
      await observer.close();
      await database.drop();
    }
  });
});
