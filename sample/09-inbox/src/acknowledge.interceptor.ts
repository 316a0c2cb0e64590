import { Injectable, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { RmqContext } from '@nestjs/microservices';
import type { Channel, ConsumeMessage } from 'amqplib';
import { catchError, mergeMap, tap, throwError, timer, type Observable } from 'rxjs';

/** Acknowledges what was done; gives back, after a pause, what failed: RabbitMQ delivers it again in its old place. */
@Injectable()
export class AcknowledgeInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rmq = context.switchToRpc().getContext<RmqContext>();
    const [channel, message] = [rmq.getChannelRef() as Channel, rmq.getMessage() as ConsumeMessage];
    return next.handle().pipe(
      catchError((error: unknown) =>
        timer(1_000).pipe(
          mergeMap(() => {
            channel.nack(message);
            return throwError(() => error);
          }),
        ),
      ),
      tap({ complete: () => channel.ack(message) }),
    );
  }
}
