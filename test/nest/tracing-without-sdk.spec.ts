import { Injectable } from '@nestjs/common';
import { context, trace } from '@opentelemetry/api';
import { inProcess, OnOutboxEvent, OutboxModule, OutboxService, type OutboxMessage } from '../../lib/index.js';
import { OutboxTracing } from '../../lib/otel/index.js';
import { describeWith } from '../support/services.js';
import { build, CollectingTransport, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

describeWith('postgres', 'an application that is traced through the API without an SDK', () => {
  const used = useApplications();

  it('stores, sends and handles the same messages as without it', async () => {
    const seen: { readonly headers: string | null; readonly span: unknown }[] = [];
    class Looking extends CollectingTransport {
      override async publish(batch: readonly OutboxMessage[]) {
        for (const { headersJson: headers } of batch) seen.push({ headers, span: trace.getSpan(context.active()) });
        return super.publish(batch);
      }
    }
    @Injectable()
    class Handler {
      @OnOutboxEvent(OrderPlaced)
      on(_event: OrderPlaced, { headersJson: headers }: OutboxMessage): void {
        seen.push({ headers, span: trace.getSpan(context.active()) });
      }
    }
    const tracing = {
      provide: OutboxTracing,
      inject: [OutboxService],
      useFactory: (outbox: OutboxService) => OutboxTracing.start(outbox),
    };
    const options = quiet({ transports: { default: inProcess(), other: new Looking() } });
    const imports = [typeOrm(used.database), OutboxModule.forRoot(options)];
    const app = await used.applications.start(build(imports, [Handler, tracing]));
    const send = (settings: object) =>
      app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'), {
        transport: ['default', 'other'],
        ...settings,
      });
    await send({});
    await until(() => seen.length === 2);
    // A writer elsewhere that is traced.
    await send({ headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } });
    await until(() => seen.length === 4);
    expect(seen.map(({ headers }) => headers)).toEqual([null, null, expect.any(String), expect.any(String)]);
    expect(seen.filter(({ span }) => span !== undefined)).toEqual([]);
  });
});
