import { Injectable } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type OutboxHandlerContext,
  type OutboxMessage,
} from '../../lib/index.js';
import { describeOnEach } from '../support/services.js';
import { build, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

describeOnEach([], 'a handler that hangs', (kind) => {
  const used = useApplications(kind);

  it('K6: is told by its signal, and called anew when its dead message is requeued', async () => {
    const signals: AbortSignal[] = [];
    @Injectable()
    class Mailer {
      @OnOutboxEvent(OrderPlaced)
      async send(_event: OrderPlaced, _message: OutboxMessage, { signal }: OutboxHandlerContext): Promise<void> {
        signals.push(signal);
        if (signals.length <= 2) await new Promise<void>(() => {});
      }
    }
    const retry = { initial: 1, max: 1, maxAttempts: 2 };
    const options = quiet({ relay: 'manual', transports: { default: inProcess() }, publishTimeout: 1_000, retry });
    const imports = [typeOrm(used.database), OutboxModule.forRoot(options)];
    const app = await used.applications.start(build(imports, [Mailer]));
    const [outbox, relay] = [app.get(OutboxService), app.get(OutboxDispatcher)];
    const id = await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(async () => (await relay.runOnce()).dead === 1);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(await outbox.requeue({ ids: [id] })).toMatchObject({ changed: [id] });
    expect(await relay.drain()).toMatchObject({ published: 1 });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, false]);
  });
});
