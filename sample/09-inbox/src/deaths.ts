import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { TransportDefinition } from 'nestjs-outbox';
import { tap, type Observable } from 'rxjs';

/** A crash: nothing is closed, and nothing is written any more. */
const die = (): Promise<never> => {
  process.kill(process.pid, 'SIGKILL');
  return new Promise(() => {});
};

/** At its fifth message: the broker has taken it, and the database of the shop does not know that yet. */
export function dyingBetweenPublishAndSettle(broker: TransportDefinition): TransportDefinition {
  let published = 0;
  return {
    ...broker,
    async create(...dependencies) {
      const transport = await broker.create(...dependencies);
      const publish = transport.publish.bind(transport);
      transport.publish = async (batch, context) => {
        published += batch.length;
        if (published < 5) return publish(batch, context);
        await publish(batch, { ...context, report: () => undefined });
        return die();
      };
      return transport;
    },
  };
}

/** Tells of each delivery. Where `DIES` is set it dies at the third, when its invoice is committed and RabbitMQ does not know it yet. */
@Injectable()
export class DeliveriesInterceptor implements NestInterceptor {
  private deliveries = 0;

  async intercept(_context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    await new Promise((told) => process.send?.({ delivered: ++this.deliveries }, undefined, undefined, told));
    const isLast = process.env['DIES'] === 'true' && this.deliveries === 3;
    return next.handle().pipe(tap({ complete: () => void (isLast && die()) }));
  }
}
