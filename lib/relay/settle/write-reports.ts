import type { OutboxMessage } from '../../outbox-message.js';
import type { Ledger } from '../ledger.js';
import type { ParkedReader } from '../order/parked-reader.js';
import type { Reader } from '../read/reader.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { WakeUps } from '../wake-ups.js';
import type { Decided, Transition, WriteReport, Written } from './settler.js';
import { batchOf, tellPublished } from './tell-published.js';

/** What the database's answers change in a transport relay. */
interface ReportsRelay {
  readonly deps: TransportRelayDependencies<unknown>;
  readonly open: ReadonlySet<number>;
  readonly reader: Reader;
  readonly ledger: Ledger;
  readonly parked: ParkedReader;
  roomMade(): void;
  readonly wakeUps: WakeUps;
}

/** What follows from the database's answer: memory and keys are free again, and everybody hears what became of the messages. */
export class WriteReports {
  constructor(readonly relay: ReportsRelay) {}

  apply(report: WriteReport): void {
    if (report.kind === 'settled') return this.settled(report);
    if (report.kind === 'transitioned') {
      this.transitioned(report.transitions, report.written);
      return this.overtaken(report.overtaken);
    }
    const { operation, error, retryIn } = report;
    this.relay.deps.hooks.emit('error', { operation, error, retryIn });
  }

  /** Gone from the database. */
  private settled({ messages, fence, readsBefore }: Extract<WriteReport, { kind: 'settled' }>): void {
    const { reader, parked, ledger, deps } = this.relay;
    reader.lowWaterMark.wrote(fence, readsBefore);
    ledger.settled(messages);
    let unparked = false;
    for (const message of messages) {
      if (message.parkedId === null) reader.settled(message);
      else {
        unparked = true;
        const gate = ledger.queues.gateOf(message);
        if (gate !== null) parked.continueKey(message.bucket, gate);
      }
    }
    if (unparked) this.relay.wakeUps.parked();
    this.relay.roomMade();
    if (reader.isOfOtherServer(readsBefore)) this.lookFor(messages);
    tellPublished(deps, messages);
  }

  private transitioned(transitions: readonly Decided[], written: Written): void {
    const { fence, readsBefore, missed } = written;
    const { reader, parked, ledger, deps } = this.relay;
    reader.lowWaterMark.wrote(fence, readsBefore);
    let soonest = Infinity;
    for (const transition of transitions) {
      const { message, blocks, delay, wasAside } = transition;
      // Under a later lease the row, if it is still there, was read again, and is known for that.
      const current = deps.leases.lease(deps.id, message.bucket)?.epoch === transition.epoch;
      if (message.parkedId === null && current) reader.settled(message);
      ledger.written(transition);
      parked.parked(transition);
      const gate = ledger.queues.gateOf(message);
      // Dead, and its key goes on; or what it waited behind may be gone.
      if (gate !== null && (missed || wasAside === true || (!blocks && message.parkedId !== null))) {
        parked.continueKey(message.bucket, gate);
        soonest = 0;
      }
      if (delay !== null) soonest = Math.min(soonest, delay);
      this.tell(transition);
    }
    if (soonest < Infinity) this.relay.wakeUps.parked(soonest);
    this.relay.roomMade();
    if (reader.isOfOtherServer(readsBefore)) this.lookFor(transitions.map(({ message }) => message));
  }

  /**
   * They were written, and may be there all the same: who reads now asks another server, which may have lost what was written.
   */
  private lookFor(messages: readonly OutboxMessage[]): void {
    const { reader, open } = this.relay;
    const ready = messages.filter(({ parkedId, bucket }) => parkedId === null && open.has(bucket));
    if (ready.length === 0) return;
    reader.rewind(ready);
    this.relay.wakeUps.ready();
  }

  /** The rows are as they were; whoever has the bucket now has read them, and that may be us. */
  overtaken(transitions: readonly Decided[]): void {
    if (transitions.length === 0) return;
    for (const transition of transitions) {
      this.relay.ledger.written(transition);
      this.relay.parked.parked(transition);
    }
    this.relay.roomMade();
  }

  private tell({ message, state, attempts, delay, error, onWritten }: Transition): void {
    if (onWritten !== undefined) return onWritten();
    const { hooks, name } = this.relay.deps;
    const { id, type, topic } = message;
    const of = { transport: name, id, type, topic, ...batchOf(message), attempts };
    if (state === 'dead') {
      hooks.emit('dead', { ...of, error: error ?? '' });
      this.relay.deps.died();
    } else if (state === 'waiting' && error !== null) {
      hooks.emit('retried', { ...of, delay: delay ?? 0, error });
    }
  }
}
