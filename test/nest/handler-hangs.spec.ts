import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
} from '../../lib/index.js';
import { pause, systemClock } from '../../lib/time/clock.js';
import { describeOnEach } from '../support/services.js';
import { build, quiet, typeOrm, until, useApplications } from './support/app.js';

const never = (): Promise<void> => new Promise(() => {});
const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Infinity;

describeOnEach([], 'one type of handler that hangs', (kind) => {
  const used = useApplications(kind);
  let tables = 0;

  const start = async (providers: any[], options: Partial<OutboxOptions> = {}) => {
    const database = { prefix: `k7_${++tables}_` };
    const common = { transports: { default: inProcess() }, publishTimeout: 1_000, database };
    const imports = [typeOrm(used.database), OutboxModule.forRoot(quiet({ ...common, ...options }))];
    return (await used.applications.start(build(imports, providers))).get(OutboxService);
  };

  it('K7: does not slow the others down, and is named by health and by an event', async () => {
    const latencies: number[] = [];
    @Injectable()
    class Work {
      @OnOutboxEvent({ type: 'hang' })
      hang(): Promise<void> {
        return never();
      }
      @OnOutboxEvent({ type: 'fast' })
      fast(event: { at: number }): void {
        latencies.push(performance.now() - event.at);
      }
    }
    const outbox = await start([Work]);
    const away: string[] = [];
    outbox.events.on('destinationAway', ({ destination }) => void away.push(destination));
    const hanging = Array.from({ length: 200 }, (_, n) => ({ type: 'hang', topic: 't', key: `h${n}`, payload: {} }));
    for (const message of hanging) await outbox.enqueueOutsideTransaction(message);
    const begun = performance.now();
    let sent = 0;
    while (performance.now() - begun < 12_000) {
      const payload = { at: performance.now() };
      await outbox.enqueueOutsideTransaction({ type: 'fast', topic: 't', key: `f${sent % 20}`, payload });
      sent += 1;
      await pause(systemClock, 50);
    }
    expect(latencies.length).toBeGreaterThan(sent * 0.8);
    expect(median(latencies.slice(-60))).toBeLessThan(500);
    const health = await outbox.health();
    expect(health.status).toBe('degraded');
    expect(health.reasons).toContainEqual(expect.stringContaining('handler "Work.hang"'));
    expect(away).toContainEqual(expect.stringContaining('handler "Work.hang"'));
  });

  it('K7: a message whose call still runs waits for that without an attempt, and dies of calls that were made', async () => {
    const begun: OutboxMessage[] = [];
    @Injectable()
    class Work {
      @OnOutboxEvent({ type: 'hang' })
      hang(_event: unknown, message: OutboxMessage): Promise<void> {
        begun.push(message);
        return never();
      }
    }
    const outbox = await start([Work], { retry: { initial: 1, max: 1, maxAttempts: 2 } });
    const id = await outbox.enqueueOutsideTransaction({ type: 'hang', topic: 't', key: 'k', payload: {} });
    await until(async () => (await outbox.stats()).total.dead === 1);
    expect(begun.map((message) => [message.id, message.attempts])).toEqual([
      [id, 0],
      [id, 1],
    ]);
  });
});
