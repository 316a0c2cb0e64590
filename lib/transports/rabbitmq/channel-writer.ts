import { systemClock } from '../../time/clock.js';
import { PUBLISHED, type PublishFailure } from '../transport.js';
import { blameFor, type RabbitMqTrouble } from '../amqp/blame.js';
import type { Aside } from './aside.js';
import type { PublishCall } from './call.js';
import type { AmqpChannel, RabbitMqEncoder, RabbitMqPublish } from './client.js';
import { missingExchange } from '../amqp/errors.js';
import type { RabbitMqLink } from './link.js';
import type { Refusals } from './refusals.js';
import type { Suspects } from './suspects.js';
import { Returns, type Returned } from './returns.js';
import { digestOf, MOST_LATE, type RabbitMqDestination, type Silence } from './silence.js';
import { ConfirmWindow } from './window.js';

/** What the writers of one connection share. */
export interface WriterParts {
  readonly encode: RabbitMqEncoder;
  readonly silence: Silence;
  readonly refusals: Refusals;
  /** What was unconfirmed when the broker closed a channel, so that it may be what the broker closed for. */
  readonly suspects: Suspects;
  readonly link: Pick<RabbitMqLink, 'connection' | 'isBlocked' | 'recovery' | 'assertAgain'>;
  readonly aside: Aside | undefined;
}

/** Publish calls waiting in line for one confirm channel. The line outlives a channel, not a connection. */
export class ChannelWriter {
  readonly window = new ConfirmWindow();
  readonly queue: PublishCall[] = [];
  channel: AmqpChannel | undefined;
  /** amqplib's buffer is full */ private full = false;
  private pumping = false;
  /** The owner is opening a channel for it. */
  opening = false;
  /** why the broker is about to close the channel */ private closeReason: unknown;
  private readonly returns = new Returns(this.window);
  /** by tag: given up, and the broker has it */
  private readonly late = new Map<
    number,
    { readonly id: string; readonly digest: string; readonly to: RabbitMqDestination }
  >();
  /** What has a lower tag is in the broker's hands: it answered to a later one. */ private heard = 0;
  /** Of the last message that was sent. */ private wasCareful = false;

  constructor(
    private readonly parts: WriterParts,
    readonly maxUnconfirmed: number,
    /** The broker closed the channel of a connection that lives: another one has to be opened. */
    private readonly onClosed: (writer: ChannelWriter) => void,
    /** amqplib refuses to write although no channel was closed. */
    private readonly onBroken: (error: unknown) => void,
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
    this.heard = 0;
    const on = <Detail>(event: string, handle: (detail: Detail) => void): unknown =>
      channel.on(event, (detail: Detail) => this.channel === channel && handle(detail));
    on('ack', (confirm: Confirm) => this.onConfirm(confirm, this.onAck));
    on('nack', (confirm: Confirm) => this.onConfirm(confirm, this.onNack));
    on('return', (message: Returned) => this.returns.add(message));
    on('drain', () => this.resume());
    on('error', (error) => (this.closeReason = error));
    on('close', () => this.onClose());
    this.pump();
  }

  /** Forgets the channel and gives what is unconfirmed a result; what was not sent stays in line. */
  abandon(failureOf: (alone: boolean, to: RabbitMqDestination) => PublishFailure): void {
    this.channel = undefined;
    this.returns.clear();
    for (const { to } of this.late.values()) to.forget();
    this.late.clear();
    const alone = this.window.size === 1;
    this.window.abandon((call, index, _tag, to) => {
      call.inFlight -= 1;
      to.pending -= 1;
      to.forget();
      const failure = failureOf(alone, to);
      if (failure.blame !== 'transport') this.parts.suspects.add(call.batch[index]!.id);
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
        else if (this.channel === undefined || this.full || !this.hasRoomFor(call) || this.parts.link.isBlocked) return;
        else if (!call.deadline.passed) this.send(this.channel, call, call.cursor);
      }
    } finally {
      this.pumping = false;
    }
  }

  private hasRoomFor({ isCareful }: PublishCall): boolean {
    const { size } = this.window;
    return isCareful || this.wasCareful ? size === 0 : size < this.maxUnconfirmed;
  }

  private send(channel: AmqpChannel, call: PublishCall, index: number): void {
    if (call.isOvertaking(index)) return this.refuse(call, index, { kind: 'overtaking' });
    const { silence } = this.parts;
    if (silence.confirmed.size > 0 && silence.wasConfirmed(call.batch[index]!)) {
      call.cursor = index + 1;
      return call.set(index, PUBLISHED);
    }
    let encoded: RabbitMqPublish;
    try {
      encoded = this.parts.encode(call.batch[index]!);
    } catch (error) {
      return this.refuse(call, index, { kind: 'not-encodable', error });
    }
    const to = silence.of(encoded.exchange, encoded.routingKey);
    const now = systemClock.monotonic();
    const mayClose = this.maxUnconfirmed === 1 || call.isCareful;
    const refusal = this.parts.refusals.of(to, mayClose ? now : undefined);
    if (refusal !== undefined) return this.refuse(call, index, refusal);
    if (to.isGuarded) {
      const answer = to.mayBeAsked(now) ? this.askAside(call, index, to) : 'refused';
      if (answer === 'asked') return void (call.cursor = index + 1);
      if (answer === 'refused') return this.refuse(call, index, { kind: 'not-confirmed', destination: to.name });
      to.guard(now); // until it answers
    }
    try {
      // amqplib encodes everything before it writes anything: a throw means that nothing was sent and no tag was used.
      this.full = !channel.publish(encoded.exchange, encoded.routingKey, encoded.content, encoded.properties);
    } catch (error) {
      if ((error as Error).name !== 'IllegalOperationError')
        return this.refuse(call, index, { kind: 'not-encodable', error });
      this.channel = undefined;
      return this.onBroken(error);
    }
    call.cursor = index + 1;
    call.inFlight += 1;
    this.wasCareful = call.isCareful;
    this.window.push(call, index, to);
    to.sent(now);
    silence.watch();
  }

  /** On a connection of the application nobody asks: one that gets no answer would be destroyed, with all that is on it. */
  private askAside(
    call: PublishCall,
    index: number,
    to: RabbitMqDestination,
  ): 'asked' | 'refused' | 'no other connection' {
    const { link, aside } = this.parts;
    if (link.connection?.own !== true) return 'no other connection';
    return aside?.ask({ call, index, to }) === true ? 'asked' : 'refused';
  }

  private refuse(call: PublishCall, index: number, trouble: RabbitMqTrouble): void {
    call.cursor = index + 1;
    call.set(index, blameFor(trouble));
  }

  private onConfirm({ deliveryTag, multiple }: Confirm, settle: typeof this.onAck): void {
    this.heard = Math.max(this.heard, deliveryTag);
    if (this.late.size > 0) this.onLate(deliveryTag, multiple, settle === this.onAck);
    this.window.confirm(deliveryTag, multiple, settle);
  }

  /** Of those that were given up: a nack leaves them to their next try. */
  private onLate(tag: number, multiple: boolean, isAck: boolean): void {
    for (const at of multiple ? [...this.late.keys()] : [tag]) {
      const found = at > tag ? undefined : this.late.get(at);
      if (found === undefined) continue;
      this.late.delete(at);
      found.to.answered(systemClock.monotonic());
      if (isAck && this.returns.troubleOf(found.id, at) === undefined)
        this.parts.silence.confirmedLate(found.id, found.digest);
    }
  }

  /**
   * Gives up what the broker has, as it confirmed something that was sent later, and does not confirm: of destinations that
   * are silent, or of a call whose time is over.
   */
  giveUp(now: number, late?: PublishCall): void {
    const { silence } = this.parts;
    const isLost = (to: RabbitMqDestination, tag: number, call: PublishCall): boolean =>
      tag < this.heard && (call === late || silence.isSilent(to, now));
    this.window.takeIf(isLost, (call, index, tag, to) => {
      if (silence.isSilent(to, now)) to.guard(now);
      to.pending -= 1;
      call.inFlight -= 1;
      const message = call.batch[index]!;
      if (this.late.size < MOST_LATE) this.late.set(tag, { id: message.id, digest: digestOf(message), to });
      call.set(index, blameFor({ kind: 'not-confirmed', destination: to.name }));
    });
    this.pump();
  }

  /** the return came first, and it wins */
  private readonly onAck = (call: PublishCall, index: number, tag: number, to: RabbitMqDestination): void => {
    this.answered(call, to);
    const trouble = this.returns.troubleOf(call.batch[index]!.id, tag);
    const failed = trouble && { ...trouble, refused: this.parts.link.assertAgain() };
    call.set(index, failed === undefined ? PUBLISHED : blameFor(failed, this.parts.link.recovery.isOn));
    if (this.queue.length > 0) this.pump();
  };

  private readonly onNack = (call: PublishCall, index: number, _tag: number, to: RabbitMqDestination): void => {
    this.answered(call, to);
    call.set(index, blameFor({ kind: 'nacked', destination: to.name }, this.parts.link.recovery.isOn));
    if (this.queue.length > 0) this.pump();
  };

  private answered(call: PublishCall, to: RabbitMqDestination): void {
    call.inFlight -= 1;
    to.pending -= 1;
    to.answered(systemClock.monotonic());
  }

  private resume(): void {
    this.full = false;
    this.pump();
  }

  /** without an `error` before it, it is the connection that ends: its own `close` follows */
  private onClose(): void {
    const error = this.closeReason;
    if (error === undefined) {
      this.channel = undefined;
      return;
    }
    const exchange = missingExchange(error);
    const refused = exchange === undefined ? undefined : this.parts.link.assertAgain();
    const failureOf = (one: boolean, to: RabbitMqDestination): PublishFailure => {
      const alone = exchange === undefined ? one : to.exchange === exchange;
      const trouble = { kind: 'channel-closed', error, alone, destination: to.name, refused } as const;
      const failure = blameFor(trouble, this.parts.link.recovery.isOn);
      if (failure.suspect === 'destination') this.parts.refusals.note(failure.destination as string, trouble);
      return failure;
    };
    this.abandon(failureOf);
    this.onClosed(this);
  }
}

interface Confirm {
  readonly deliveryTag: number;
  readonly multiple: boolean;
}
