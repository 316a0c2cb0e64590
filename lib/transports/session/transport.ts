import type { OutboxMessage } from '../../outbox-message.js';
import { abortable } from '../abortable.js';
import { Deadline } from '../deadline.js';
import type { Finding } from '../diagnosis.js';
import { classify, failed } from '../failure.js';
import {
  OutboxTransport,
  PUBLISHED,
  type BrokerQuestion,
  type ExpectedMessages,
  type MissingDestination,
  type PublishContext,
  type PublishFailure,
  type PublishResult,
  type TransportHealth,
  type TransportLimits,
  type TransportStateListener,
} from '../transport.js';
import { FlightSend, Window } from './flight.js';
import type { BrokerClient, BrokerSession, SessionEvents } from './session.js';

/**
 * Publishes over one session at a time, each message answered by itself. When a publish ends before all of its messages were
 * answered, none of them is sent later: they have left the process, or are taken back, or the session is destroyed.
 */
export class SessionTransport extends OutboxTransport {
  override readonly receipt = 'broker';
  override readonly limits: TransportLimits;
  private session: BrokerSession | undefined;
  private opening: { readonly session: Promise<BrokerSession>; readonly abort: AbortController } | undefined;
  private readonly window = new Window();
  /** Of publishes under way. */
  private readonly deadlines = new Set<Deadline>();
  private blocked: string | undefined;
  private closed = false;
  private isPumping = false;
  private lastFailure: string | undefined;
  private onState: TransportStateListener | undefined;

  constructor(private readonly client: BrokerClient) {
    super();
    this.limits = client.limits;
  }

  override async connect(signal: AbortSignal, onState?: TransportStateListener): Promise<void> {
    this.closed = false;
    this.onState = onState;
    await abortable(this.ensureOpen(), signal).catch((error: unknown) => {
      if (signal.aborted) this.opening?.abort.abort(error);
      throw error;
    });
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    if (batch.length === 0) return;
    const deadline = new Deadline(context.signal, context.timeout);
    this.deadlines.add(deadline);
    let left = batch.length;
    let land: () => void;
    const done = new Promise<void>((resolve) => (land = resolve));
    const onAnswer = (send: FlightSend, result: PublishResult | undefined, error: unknown): void => {
      this.window.landed(send);
      context.report(send.index, result ?? (error === undefined ? PUBLISHED : this.refusal(error, send.message)));
      if (--left === 0) land();
      this.pumpSoon();
    };
    const sends = batch.map((message, index) => new FlightSend(message, deadline, onAnswer, index));
    deadline.onPass(() => this.expire(sends, context.signal.reason));
    this.window.waiting.push(...sends.filter((send) => !send.isSettled));
    this.ensureOpen().then(
      () => this.pump(),
      (error: unknown) => failAll(sends, this.unavailable(error)),
    );
    this.pump();
    await done;
    this.deadlines.delete(deadline);
    deadline.dispose();
  }

  override destinationOf(message: OutboxMessage): string | readonly string[] {
    return this.client.destinationOf?.(message) ?? [];
  }

  override async findMissing(
    expected: readonly ExpectedMessages[],
    signal: AbortSignal,
  ): Promise<readonly MissingDestination[]> {
    return (await this.client.findMissing?.(expected, signal)) ?? [];
  }

  override async diagnose(question: BrokerQuestion, signal: AbortSignal): Promise<readonly Finding[]> {
    return (await this.client.diagnose?.(question, signal)) ?? [];
  }

  override reset(): void {
    this.drop(new Error('The transport was reset.'));
  }

  override async close(): Promise<void> {
    this.closed = true;
    const { session } = this;
    const isIdle = this.window.inFlight.size === 0 && this.window.waiting.length === 0;
    // What waits for its answer now gets its verdict now, so it must not arrive later.
    if (!isIdle || session === undefined) return this.drop(new Error('The transport was closed.'));
    this.session = undefined;
    await session.close().catch((error: unknown) => session.destroy(error));
  }

  override health(): TransportHealth {
    const { name } = this.client;
    if (this.session !== undefined && this.blocked !== undefined)
      return { up: true, state: 'blocked', detail: `${name} asks to wait: ${this.blocked}.` };
    if (this.session !== undefined) return { up: true, state: 'connected' };
    const state = this.opening === undefined ? 'closed' : 'connecting';
    const detail = `The connection to ${name} was lost or refused${this.lastFailure}.`;
    return { up: false, state, ...(this.lastFailure !== undefined && { detail }) };
  }

  /** One attempt for all that wait. */
  private ensureOpen(): Promise<BrokerSession> {
    if (this.closed) return Promise.reject(new Error('The transport is closed.'));
    if (this.session !== undefined) return Promise.resolve(this.session);
    this.opening ??= this.open();
    return this.opening.session;
  }

  private open(): NonNullable<SessionTransport['opening']> {
    const abort = new AbortController();
    let opened: BrokerSession | undefined;
    const isCurrent = (): boolean => opened !== undefined && this.session === opened;
    const events: SessionEvents = {
      lost: (error) => {
        if (isCurrent()) this.lost(error);
      },
      blocked: (reason) => {
        if (isCurrent()) this.wait(reason);
      },
      mayWrite: () => this.mayWrite(),
    };
    const undo = (late: BrokerSession): void => late.destroy(abort.signal.reason);
    const session = abortable(this.client.open(abort.signal, events), abort.signal, undo).then(
      (made) => {
        opened = this.session = made;
        [this.opening, this.blocked, this.lastFailure] = [undefined, undefined, undefined];
        this.onState?.('up');
        return made;
      },
      (error: unknown) => {
        this.opening = undefined;
        this.note(error);
        throw error;
      },
    );
    session.catch(() => undefined);
    return { session, abort };
  }

  /** Answers come many at once: what has room then goes together. */
  private pumpSoon(): void {
    if (this.isPumping || this.window.waiting.length === 0) return;
    this.isPumping = true;
    queueMicrotask(() => {
      this.isPumping = false;
      this.pump();
    });
  }

  private pump(): void {
    const { session } = this;
    if (session === undefined || this.blocked !== undefined) return;
    const sends = this.window.take(session.window);
    if (sends.length > 0) session.send(sends);
  }

  /** Deadlines that passed while the process stood still are heard now; each may end the session. */
  private mayWrite(): boolean {
    const { session } = this;
    for (const { passed } of this.deadlines) void passed; // which calls `expire`
    return session !== undefined && this.session === session;
  }

  private expire(sends: readonly FlightSend[], reason: unknown): void {
    const open = sends.filter((send) => !send.isSettled);
    const sent = open.filter((send) => this.window.inFlight.has(send));
    const error = reason instanceof Error ? reason : new Error(`${this.client.name} did not answer in time.`);
    const takesBack = this.session?.takeBack !== undefined;
    const stuck = takesBack ? sent : sent.filter((send) => !this.window.hasLeft(send));
    if (stuck.length > 0 && takesBack) this.session!.takeBack!(stuck);
    else if (stuck.length > 0) return this.drop(error, open);
    // The broker answered others that were sent later: it is these, or where they go.
    for (const send of open)
      send.settle(sent.includes(send) ? this.unanswered(error, send.message) : this.unsent(error));
  }

  private lost(error: unknown): void {
    this.note(error);
    this.drop(error);
    this.onState?.('down', error);
  }

  private wait(reason: string | undefined): void {
    this.blocked = reason;
    this.onState?.(reason === undefined ? 'up' : 'blocked', reason);
    this.pump();
  }

  /** Destroys the session, then answers everything that was on it. */
  private drop(error: unknown, late: readonly FlightSend[] = []): void {
    const { session, opening } = this;
    [this.session, this.opening, this.blocked] = [undefined, undefined, undefined];
    opening?.abort.abort(error);
    session?.destroy(error);
    const all = this.window.clear();
    const failure = this.failureOf(error, all.length);
    failAll(all, failure);
    failAll(late, this.unsent(error));
    failAll(this.window.waiting.splice(0), this.unsent(error));
  }

  private refusal(error: unknown, message: OutboxMessage): PublishFailure {
    const verdict = this.client.judge(error, message);
    const { blame, ...rest } = classify(verdict, 1);
    return failed(blame, verdict.error ?? error, { ...rest, ...placeOf(verdict) });
  }

  private failureOf(error: unknown, messages: number): PublishFailure {
    const verdict = this.client.judge(error);
    const { blame, ...rest } = classify(verdict, messages);
    return failed(blame === 'message' ? 'transport' : blame, verdict.error ?? error, { ...rest, final: undefined });
  }

  private unavailable(error: unknown): PublishFailure {
    return failed('transport', this.client.judge(error).error ?? error);
  }

  private unsent(error: unknown): PublishFailure {
    return failed('transport', error);
  }

  private unanswered(error: unknown, message: OutboxMessage): PublishFailure {
    const [destination] = [this.destinationOf(message)].flat();
    return failed('transport', error, { suspect: 'destination', destination });
  }

  private note(error: unknown): void {
    const { code, name } = error as { code?: unknown; name?: unknown };
    this.lastFailure = typeof code === 'string' || typeof name === 'string' ? ` (${String(code ?? name)})` : '';
  }
}

function placeOf({ destination, certain }: { destination?: string; certain?: boolean }) {
  return destination === undefined ? {} : { destination, ...(certain && { certain, suspect: 'destination' as const }) };
}

function failAll(sends: readonly FlightSend[], failure: PublishFailure): void {
  for (const send of sends) send.settle(failure);
}
