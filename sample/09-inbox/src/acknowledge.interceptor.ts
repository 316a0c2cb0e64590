import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { RmqContext } from '@nestjs/microservices';
import type { Channel, ConsumeMessage } from 'amqplib';
import { catchError, mergeMap, tap, throwError, timer, type Observable } from 'rxjs';

/** Handlers of one event share an acknowledgement. */
const atWork = new WeakMap<object, { handlers: number; failed: boolean }>();

/** Acknowledges what was done; gives back, after a pause, what failed. */
@Injectable()
export class AcknowledgeInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rmq = context.switchToRpc().getContext<RmqContext>();
    const [channel, message] = [rmq.getChannelRef() as Channel, rmq.getMessage() as ConsumeMessage];
    const work = atWork.get(message) ?? { handlers: 0, failed: false };
    atWork.set(message, work);
    work.handlers += 1;
    const end = (failed: boolean): void => {
      work.failed ||= failed;
      if (--work.handlers === 0) channel[work.failed ? 'nack' : 'ack'](message);
    };
    return next.handle().pipe(
      catchError((error: unknown) =>
        timer(1_000).pipe(
          tap(() => end(true)),
          mergeMap(() => throwError(() => error)),
        ),
      ),
      // Where one handler fails, Nest leaves the others.
      tap({ complete: () => end(false), unsubscribe: () => end(true) }),
    );
  }
}
