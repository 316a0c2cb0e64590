import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import { systemClock, within } from '../../time/clock.js';
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
import { FlightSend, Window, type End } from './flight.js';
import type { BrokerClient, BrokerSession, SessionEvents } from './session.js';

/**
 * Publishes over one session at a time, each message answered by itself. When a publish ends before all of its messages were
 * answered, none of them is sent later: they have left the process, or are taken back, or the session is destroyed.
 */
export class SessionTransport extends OutboxTransport {
  override readonly receipt = 'broker';
  override readonly limits: TransportLimits;
  private session: BrokerSession | undefined;
  private opening: Opening | undefined;
  /** May say goodbye. */
  private closing: BrokerSession | undefined;
  private readonly window = new Window();
  /** Of each publish that is under way. */
  private readonly deadlines = new Set<Deadline>();
  private isPumping = false;
  private blocked: string | undefined;
  private closed = false;
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
    let left = batch.length;
    let land: () => void;
    const done = new Promise<void>((resolve) => (land = resolve));
    const onEnd = (send: FlightSend, end: End): void => {
      this.window.landed(send, end);
      report(context, send.index, this.resultOf(send, end));
      if (--left === 0) land();
      this.pump();
    };
    const sends = batch.map((message, index) => new FlightSend(message, deadline, onEnd, index));
    this.deadlines.add(deadline);
    deadline.onPass(() => this.expire(sends, context.signal.reason));
    this.window.waiting.push(...sends);
    this.ensureOpen().then(
      () => this.pump(),
      (error: unknown) => failAll(sends, this.unavailable(error)),
    );
    this.pump();
    await done;
    this.deadlines.delete(deadline);
    deadline.dispose();
    this.window.sweep();
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
    this.drop(unavailable('The transport was reset.'));
  }

  override async close(): Promise<void> {
    this.closed = true;
    const { session } = this;
    const isIdle = this.window.inFlight.size === 0 && this.window.waiting.length === 0;
    // What waits for its answer now gets its verdict now, so it must not arrive later.
    if (!isIdle || session === undefined) return this.drop(unavailable('The transport was closed.'));
    [this.session, this.closing] = [undefined, session];
    const isClosed = await within(systemClock, CLOSE_TIMEOUT, session.close()).catch(() => false);
    this.closing = undefined;
    if (!isClosed) session.destroy(unavailable('The transport was closed.'));
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
    if (this.closed) return Promise.reject(unavailable('The transport is closed.'));
    if (this.session !== undefined) return Promise.resolve(this.session);
    this.opening ??= this.open();
    return this.opening.session;
  }

  private open(): Opening {
    const abort = new AbortController();
    const { signal } = abort;
    const giveUp = (): void =>
      abort.abort(timedOut(`${this.client.name} did not let us in within ${OPEN_TIMEOUT} ms.`));
    const cancel = systemClock.after(OPEN_TIMEOUT, giveUp);
    let opened: BrokerSession | undefined;
    let blocked: string | undefined;
    const isCurrent = (): boolean => opened !== undefined && this.session === opened;
    const events: SessionEvents = {
      lost: (error) => {
        if (opened === undefined) abort.abort(error);
        else if (isCurrent()) this.lost(error);
      },
      blocked: (reason) => {
        blocked = reason;
        if (isCurrent()) this.wait(reason);
      },
      mayWrite: () => (opened === undefined ? !signal.aborted : this.mayWrite(opened)),
    };
    const undo = (late: BrokerSession): void => late.destroy(signal.reason);
    const session = abortable(this.client.open(signal, events), signal, undo).then((made) => {
      if (signal.aborted) undo(made);
      signal.throwIfAborted();
      cancel();
      opened = this.session = made;
      [this.opening, this.blocked, this.lastFailure] = [undefined, undefined, undefined];
      this.onState?.('up');
      if (blocked !== undefined) this.wait(blocked);
      return made;
    });
    const opening: Opening = { session, abort };
    session.catch((error: unknown) => {
      cancel();
      if (this.opening === opening) this.opening = undefined;
      this.note(error);
    });
    return opening;
  }

  /** Soon, so that what several answers made room for goes together, and never within a `send`. */
  private pump(): void {
    if (this.isPumping || this.window.waiting.length === 0) return;
    this.isPumping = true;
    queueMicrotask(() => {
      this.isPumping = false;
      this.sendWaiting();
    });
  }

  private sendWaiting(): void {
    const { session } = this;
    if (session === undefined || this.blocked !== undefined) return;
    const sends = this.window.take(session.window).filter((send) => !send.isSettled);
    // A deadline that was found to have passed may have ended the session, and all that was on it.
    if (sends.length > 0 && this.session === session) session.send(sends);
  }

  /** Deadlines that passed while the process stood still are heard now; each may end the session. */
  private mayWrite(session: BrokerSession): boolean {
    for (const deadline of this.deadlines) void deadline.passed; // which calls `expire`
    return this.session === session || this.closing === session;
  }

  private expire(sends: readonly FlightSend[], reason: unknown): void {
    const open = sends.filter((send) => !send.isSettled);
    const sent = open.filter((send) => this.window.inFlight.has(send));
    const error = timedOut(`${this.client.name} did not answer before the publish was over.`, reason);
    if (this.session?.takeBack !== undefined) this.session.takeBack(sent);
    // Nothing less than its end keeps back what the client may still hold.
    else if (sent.some((send) => !this.window.hasLeft(send))) return this.drop(error, open);
    // The broker answered others that were sent later: it is these, or where they go.
    for (const send of open)
      send.settle(this.window.inFlight.has(send) ? this.unanswered(error, send.message) : this.unsent(error));
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

  private resultOf({ message }: FlightSend, { result, error }: End): PublishResult {
    return result ?? (error === undefined ? PUBLISHED : this.refusal(error, message));
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
    const { code, name } = Object((error as Error | undefined)?.cause ?? error) as { code?: unknown; name?: unknown };
    this.lastFailure = typeof code === 'string' || typeof name === 'string' ? ` (${String(code ?? name)})` : '';
  }
}

interface Opening {
  readonly session: Promise<BrokerSession>;
  readonly abort: AbortController;
}

/** Milliseconds in which a session opens, whoever waits for it and for how long. */
const OPEN_TIMEOUT = 30_000;
/** Milliseconds. */
const CLOSE_TIMEOUT = 3_000;

const timedOut = (text: string, cause?: unknown): OutboxError => new OutboxError('PUBLISH_TIMEOUT', text, { cause });
const unavailable = (text: string): OutboxError => new OutboxError('TRANSPORT_UNAVAILABLE', text);

/** What is thrown here would end in the reader of the broker's client. */
function report(context: PublishContext, index: number, result: PublishResult): void {
  try {
    context.report(index, result);
  } catch {
    // A bug of who reports. Without a result the message counts as not published.
  }
}

function placeOf({ destination, certain }: { destination?: string; certain?: boolean }) {
  return destination === undefined ? {} : { destination, ...(certain && { certain, suspect: 'destination' as const }) };
}

function failAll(sends: readonly FlightSend[], failure: PublishFailure): void {
  for (const send of sends) send.settle(failure);
}
