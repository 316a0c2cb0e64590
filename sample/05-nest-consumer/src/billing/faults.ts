import { Catch, Injectable, type RpcExceptionFilter } from '@nestjs/common';
import { type Observable, throwError } from 'rxjs';

class Fault extends Error {}

/** What goes wrong in this sample, once each. */
@Injectable()
export class Faults {
  private readonly happened = new Set<string>();

  /** Called within the transaction, which rolls back: the work is done anew. */
  print(orderId: string): void {
    if (orderId === 'order-3') this.failOnce('invoice of order-3', 'the printer is out of paper; rolled back');
  }

  /** Called behind the commit: the message comes again, and its work is not done again. */
  thank(orderId: string): void {
    if (orderId === 'order-5') this.failOnce('thanks for order-5', 'the mail server is away; the payment is committed');
  }

  private failOnce(task: string, why: string): void {
    if (this.happened.has(task)) {
      console.log(`billing: ${task}: came again, done`);
      return;
    }
    this.happened.add(task);
    throw new Fault(`${task}: ${why}`);
  }
}

/** One line for what was expected. Any other error Nest logs with its stack. */
@Catch(Fault)
export class FaultFilter implements RpcExceptionFilter<Fault> {
  catch(fault: Fault): Observable<never> {
    console.log(`billing: ${fault.message}`);
    return throwError(() => fault);
  }
}
