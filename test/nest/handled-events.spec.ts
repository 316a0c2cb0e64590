import { Injectable, type Type } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
} from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { build, failure, quiet, typeOrm, useApplications } from './support/app.js';

@OutboxEvent({ type: 'invoice.sent' })
class InvoiceSent {
  constructor(readonly number: number) {}
}
@OutboxEvent({ type: 'invoice.sent' })
class BillSent {}
@OutboxEvent({ type: 'invoice.sent', version: 2 })
class InvoiceSentToo {}

describeWith('postgres', 'The events that handlers name', () => {
  const used = useApplications();
  let prefixes = 0;
  const application = (providers: Type[]) => {
    const database = { setup: 'create' as const, prefix: `e${++prefixes}_` };
    const options = quiet({ relay: 'manual', transports: { default: inProcess() }, database });
    return build([typeOrm(used.database), OutboxModule.forRoot(options)], providers);
  };
  const calls: unknown[] = [];
  @Injectable()
  class Mailer {
    @OnOutboxEvent(InvoiceSent)
    send(event: InvoiceSent): void {
      calls.push(event);
    }
  }
  @Injectable()
  class Ledger {
    @OnOutboxEvent(BillSent)
    book(): void {}
  }
  @Injectable()
  class Others {
    @OnOutboxEvent(InvoiceSent)
    again(): void {}
    @OnOutboxEvent(InvoiceSentToo)
    next(): void {}
    @OnOutboxEvent({ type: 'invoice.sent' })
    plain(): void {}
  }

  it('L8: refuses at start two classes of one type and version, and names both and their handlers', async () => {
    const error = await failure(application([Mailer, Ledger]));
    expect(error).toMatchObject({ code: 'DUPLICATE_EVENT_TYPE' });
    expect(error.message).toContain(
      "InvoiceSent (of Mailer.send) and BillSent (of Ledger.book) are both event 'invoice.sent' version 1.",
    );
  });

  it('L8: takes several handlers of a class, another version, the plain message, and the class loaded again', async () => {
    @OutboxEvent({ type: 'invoice.sent' })
    class Reloaded {}
    Object.defineProperty(Reloaded, 'name', { value: 'InvoiceSent' });
    @Injectable()
    class Second {
      @OnOutboxEvent(Reloaded)
      on(): void {}
    }
    const app = await used.applications.start(application([Mailer, Others, Second]));
    await app.get(OutboxService).enqueueOutsideTransaction(new InvoiceSent(7));
    await app.get(OutboxDispatcher).drain();
    expect(calls).toEqual([new InvoiceSent(7)]);
  });
});
