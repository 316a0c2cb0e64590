import { systemClock } from '../../time/clock.js';
import { PUBLISHED, type OutboxTransport, type PublishContext, type PublishResult } from '../transport.js';
import { blameFor } from '../amqp/blame.js';
import type { PublishCall } from './call.js';
import type { RabbitMqDestination } from './silence.js';

interface Question {
  readonly call: PublishCall;
  readonly index: number;
  readonly to: RabbitMqDestination;
}

/**
 * Asks destinations that confirmed nothing whether they are there, one message at a time over a connection of their own: a
 * queue without its majority stops the channel on which it is written to (RabbitMQ waits for it on that channel's first
 * message), and what gets no answer takes its connection with it.
 */
export class Aside {
  private readonly questions: Question[] = [];
  private transport: OutboxTransport | undefined;
  private isAsking = false;

  constructor(
    readonly connect: () => OutboxTransport,
    /** Milliseconds for an answer. */
    readonly patience: () => number,
  ) {}

  /** @returns false: too many are waiting */
  ask(question: Question): boolean {
    if (this.questions.length >= MOST_WAITING) return false;
    question.to.isAsked = true;
    this.questions.push(question);
    if (!this.isAsking) void this.askAll();
    return true;
  }

  reset(): void {
    void this.transport?.reset?.();
    for (const question of this.questions.splice(0)) this.fail(question);
  }

  private async askAll(): Promise<void> {
    this.isAsking = true;
    for (let next; (next = this.questions.shift()) !== undefined;) await this.answer(next);
    this.isAsking = false;
    const { transport } = this;
    this.transport = undefined;
    await transport?.close?.().catch(() => undefined);
  }

  private async answer(question: Question): Promise<void> {
    const { call, index, to } = question;
    if (!(await this.isConnected(call))) return this.fail(question);
    const timeout = Math.min(this.patience(), call.deadline.left - MARGIN);
    if (timeout <= 0 || call.settled || this.transport === undefined) return this.fail(question);
    let result: PublishResult | undefined;
    const report: PublishContext['report'] = (_, told) => (result = told);
    const context = { signal: call.context.signal, timeout, report };
    await this.transport.publish([call.batch[index]!], context).catch(() => undefined);
    if (result === undefined || !isAnswer(result)) return this.fail(question);
    to.isAsked = false;
    to.answered(systemClock.monotonic());
    call.set(index, result.ok ? PUBLISHED : result);
  }

  /** A connection takes the time of the publish, and nothing of the destination's, which cannot answer before. */
  private async isConnected({ context, deadline, settled }: PublishCall): Promise<boolean> {
    const { left } = deadline;
    if (left <= MARGIN || settled) return false;
    this.transport ??= this.connect();
    const connected = this.transport.connect?.(
      AbortSignal.any([context.signal, AbortSignal.timeout(Math.floor(left - MARGIN))]),
    );
    return Promise.resolve(connected).then(
      () => true,
      () => false,
    );
  }

  private fail({ call, index, to }: Question): void {
    to.isAsked = false;
    to.guard(systemClock.monotonic());
    call.set(index, blameFor({ kind: 'not-confirmed', destination: to.name }));
  }
}

/** The broker spoke of this message, also where it said that there is no such destination, or that it is full. */
function isAnswer(result: PublishResult): boolean {
  return result.ok || result.blame === 'message' || result.destination !== undefined;
}

/** What waits longer is put off like the others. */
const MOST_WAITING = 100;
/** Milliseconds: the answer is known before the time of its publish is over. */
const MARGIN = 50;
