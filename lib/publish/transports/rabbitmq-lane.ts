import type { OutboxMessage } from '../../message.js';
import { PUBLISHED, type PublishFailure } from '../transport.js';
import { blameFor, type RabbitMqTrouble } from './rabbitmq-blame.js';
import type { PublishCall } from './rabbitmq-call.js';
import type { AmqpChannel } from './rabbitmq-client.js';
import type { RabbitMqEncoder, RabbitMqPublish } from './rabbitmq-message.js';
import { ConfirmWindow } from './rabbitmq-window.js';

export interface LaneOwner {
  readonly encode: RabbitMqEncoder;
  /** The broker came back a moment ago, and may not have found all of its queues and exchanges yet. */
  readonly recovering: boolean;
  /** While true nothing is written: the broker asked to wait. */
  isBlocked(): boolean;
  /** The broker closed the channel of a connection that lives; the owner opens another one. */
  onChannelClosed(lane: RabbitMqLane): void;
  /** amqplib refuses to write although no channel was closed. */
  onBroken(error: unknown): void;
  /** Its deadline passed: it is taken out of line and given its results. */
  expire(call: PublishCall, reason: unknown): void;
  /** It was unconfirmed when the broker closed the channel, so that it may be what the broker closed for. */
  suspect(message: OutboxMessage): void;
}

/** Publish calls waiting in line for one confirm channel. The line outlives a channel, not a connection. */
export class RabbitMqLane {
  readonly window = new ConfirmWindow();
  /** @internal */ readonly queue: PublishCall[] = [];
  /** @internal */ channel: AmqpChannel | undefined;
  /** @internal amqplib's buffer is full */ full = false;
  /** @internal */ pumping = false;
  /** The owner is opening a channel for it. */
  opening = false;
  /** @internal why the broker is about to close the channel */ closeReason: unknown;
  /** @internal message ids that came back, and the tag that was next then: the ack, which follows, is of one before it */
  readonly returned = new Map<string, { readonly trouble: RabbitMqTrouble; readonly before: number }>();

  constructor(
    readonly owner: LaneOwner,
    readonly maxUnconfirmed: number,
  ) {}

  add(call: PublishCall): void {
    this.queue.push(call);
    this.pump();
  }

  remove(call: PublishCall): void {
    const at = this.queue.indexOf(call);
    if (at >= 0) this.queue.splice(at, 1);
  }

  open(channel: AmqpChannel): void {
    this.channel = channel;
    this.full = false;
    this.closeReason = undefined;
    const current =
      <A extends unknown[]>(handle: (...args: A) => void) =>
      (...args: A): void => {
        if (this.channel === channel) handle(...args);
      };
    channel.on(
      'ack',
      current(({ deliveryTag, multiple }: Confirm) => this.window.confirm(deliveryTag, multiple, this.onAck)),
    );
    channel.on(
      'nack',
      current(({ deliveryTag, multiple }: Confirm) => this.window.confirm(deliveryTag, multiple, this.onNack)),
    );
    channel.on(
      'return',
      current((message: Returned) => this.onReturn(message)),
    );
    channel.on(
      'drain',
      current(() => this.resume()),
    );
    channel.on(
      'error',
      current((error: unknown) => (this.closeReason = error)),
    );
    channel.on(
      'close',
      current(() => this.onClose()),
    );
    this.pump();
  }

  /** Forgets the channel and gives what is unconfirmed a result; what was not sent stays in line. */
  abandon(failureOf: (alone: boolean) => PublishFailure): void {
    this.channel = undefined;
    this.returned.clear();
    const failure = failureOf(this.window.size === 1);
    this.window.abandon((call, index) => {
      call.inFlight -= 1;
      if (failure.blame !== 'transport') this.owner.suspect(call.batch[index]!);
      call.set(index, failure);
    });
  }

  /** What is in line fails; nothing of it was sent. */
  failQueued(failure: PublishFailure): void {
    for (const call of this.queue.splice(0)) call.fail(failure);
  }

  /** Writes as much as broker, buffer and window take. */
  pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    try {
      for (let call; (call = this.queue[0]) !== undefined;) {
        if (call.settled || call.cursor === call.batch.length) this.queue.shift();
        else if (
          this.channel === undefined ||
          this.full ||
          this.window.size >= this.maxUnconfirmed ||
          this.owner.isBlocked()
        )
          return;
        else if (call.late) this.owner.expire(call, undefined);
        else this.send(this.channel, call, call.cursor);
      }
    } finally {
      this.pumping = false;
    }
  }

  /** @internal */
  send(channel: AmqpChannel, call: PublishCall, index: number): void {
    if (call.isOvertaking(index)) return this.refuse(call, index, { kind: 'overtaking' });
    let encoded: RabbitMqPublish;
    try {
      encoded = this.owner.encode(call.batch[index]!);
    } catch (error) {
      return this.refuse(call, index, { kind: 'not-encodable', error });
    }
    try {
      // amqplib encodes everything before it writes anything: a throw means that nothing was sent and no tag was used.
      this.full = !channel.publish(encoded.exchange, encoded.routingKey, encoded.content, encoded.properties);
    } catch (error) {
      if ((error as Error).name !== 'IllegalOperationError')
        return this.refuse(call, index, { kind: 'not-encodable', error });
      this.channel = undefined;
      return this.owner.onBroken(error);
    }
    call.cursor = index + 1;
    call.inFlight += 1;
    this.window.push(call, index);
  }

  /** @internal */
  refuse(call: PublishCall, index: number, trouble: RabbitMqTrouble): void {
    call.cursor = index + 1;
    call.set(index, blameFor(trouble));
  }

  /** @internal the return came first, and it wins */
  readonly onAck = (call: PublishCall, index: number, tag: number): void => {
    call.inFlight -= 1;
    const trouble = this.returned.size === 0 ? undefined : this.troubleOf(call.batch[index]!.id, tag);
    call.set(index, trouble === undefined ? PUBLISHED : blameFor(trouble, this.owner.recovering));
    if (this.queue.length > 0) this.pump();
  };

  /** @internal */
  readonly onNack = (call: PublishCall, index: number): void => {
    call.inFlight -= 1;
    call.set(index, blameFor({ kind: 'nacked' }, this.owner.recovering));
    if (this.queue.length > 0) this.pump();
  };

  /** @internal */
  onReturn({ fields, properties }: Returned): void {
    const { exchange, routingKey, replyCode } = fields;
    const trouble: RabbitMqTrouble = { kind: 'unroutable', exchange, routingKey, replyCode };
    this.returned.delete(properties.messageId); // the last comes last
    this.returned.set(properties.messageId, { trouble, before: this.window.next });
  }

  /** @internal plain SQL can give two messages one id: of those that were out when it came back none counts as stored */
  troubleOf(id: string, tag: number): RabbitMqTrouble | undefined {
    for (const [past, { before }] of this.returned) {
      if (!this.window.isPast(before)) break;
      this.returned.delete(past);
    }
    const found = this.returned.get(id);
    return found === undefined || tag >= found.before ? undefined : found.trouble;
  }

  /** @internal */
  resume(): void {
    this.full = false;
    this.pump();
  }

  /** @internal without an `error` before it, it is the connection that ends: its own `close` follows */
  onClose(): void {
    const error = this.closeReason;
    if (error === undefined) {
      this.channel = undefined;
      return;
    }
    this.abandon((alone) => blameFor({ kind: 'channel-closed', error, alone }, this.owner.recovering));
    this.owner.onChannelClosed(this);
  }
}

interface Confirm {
  readonly deliveryTag: number;
  readonly multiple: boolean;
}
interface Returned {
  readonly fields: { readonly exchange: string; readonly routingKey: string; readonly replyCode: number };
  readonly properties: { readonly messageId: string };
}
