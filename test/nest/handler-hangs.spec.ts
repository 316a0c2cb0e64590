import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxHandlerContext,
  type OutboxMessage,
  type OutboxOptions,
} from '../../lib/index.js';
import { pause, systemClock } from '../../lib/time/clock.js';
import { describeOnFewer } from '../support/services.js';
import { build, countedHealth, quiet, typeOrm, until, useApplications } from './support/app.js';
import { textsOf } from '../support/reasons.js';

const never = (): Promise<void> => new Promise(() => {});
const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Infinity;

describeOnFewer([], 'one type of handler that hangs', (kind) => {
  const used = useApplications(kind);
  let tables = 0;

  const start = async (providers: any[], options: Partial<OutboxOptions> = {}) => {
    const database = { prefix: `k7_${++tables}_` };
    const common = { transports: { default: inProcess() }, publishTimeout: 1_000, database };
    const imports = [typeOrm(used.database), OutboxModule.forRoot(quiet({ ...common, ...options }))];
    return (await used.applications.start(build(imports, providers))).get(OutboxService);
  };

  it('K7: does not slow the others down, and is named by health and by an event', async () => {
    let givenUp = 0;
    /** How many calls that hang were given up between the enqueue of each of the others and its call. */
    const waitedFor: number[] = [];
    @Injectable()
    class Work {
      @OnOutboxEvent({ type: 'hang' })
      hang(_event: unknown, _message: OutboxMessage, { signal }: OutboxHandlerContext): Promise<void> {
        signal.addEventListener('abort', () => (givenUp += 1));
        return never();
      }
      @OnOutboxEvent({ type: 'fast' })
      fast(event: { givenUp: number }): void {
        waitedFor.push(givenUp - event.givenUp);
      }
    }
    const outbox = await start([Work]);
    const away: string[] = [];
    outbox.events.on('destinationAway', ({ destination }) => void away.push(destination));
    const hanging = Array.from({ length: 200 }, (_, n) => ({ type: 'hang', topic: 't', key: `h${n}`, payload: {} }));
    for (const message of hanging) await outbox.enqueueOutsideTransaction(message);
    let sent = 0;
    const send = async (): Promise<void> => {
      await outbox.enqueueOutsideTransaction({
        type: 'fast',
        topic: 't',
        key: `f${sent++ % 20}`,
        payload: { givenUp },
      });
      await pause(systemClock, 50);
    };
    const isAway = (): boolean => away.some((destination) => destination.includes('handler "Work.hang"'));
    while (!isAway() || sent < 60) await send();
    await until(() => waitedFor.length === sent); // whatever hung before it was found out
    for (const end = sent + 60; sent < end;) await send();
    await until(() => waitedFor.length === sent);
    expect(median(waitedFor.slice(-60))).toBe(0);
    const health = await countedHealth(outbox, ({ status }) => status === 'degraded');
    expect(textsOf(health)).toContainEqual(expect.stringContaining('handler "Work.hang"'));
  });
});
