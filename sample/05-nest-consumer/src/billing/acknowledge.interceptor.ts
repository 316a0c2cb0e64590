import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { RmqContext } from '@nestjs/microservices';
import type { Channel, ConsumeMessage } from 'amqplib';
import { catchError, mergeMap, tap, throwError, timer, type Observable } from 'rxjs';

/** Of a message: how many handlers are at it, and whether one has failed. Nest runs all handlers of an event at once. */
const atWork = new WeakMap<object, { handlers: number; failed: boolean }>();

/** Acknowledges what was done; gives back, after a pause, what failed: RabbitMQ delivers it again in its old place. */
@Injectable()
export class AcknowledgeInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rmq = context.switchToRpc().getContext<RmqContext>();
    const [channel, message] = [rmq.getChannelRef() as Channel, rmq.getMessage() as ConsumeMessage];
    const work = atWork.get(message) ?? { handlers: 0, failed: false };
    atWork.set(message, work);
    work.handlers += 1;
    const end = (failed: boolean): void => {
      work.handlers -= 1;
      work.failed ||= failed;
      if (work.handlers > 0) return;
      if (work.failed) channel.nack(message);
      else channel.ack(message);
    };
    return next.handle().pipe(
      catchError((error: unknown) =>
        timer(1_000).pipe(
          mergeMap(() => {
            end(true);
            return throwError(() => error);
          }),
        ),
      ),
      // Where one handler fails, Nest leaves the others.
      tap({ complete: () => end(false), unsubscribe: () => end(true) }),
    );
  }
}
