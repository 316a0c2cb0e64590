import type { BrokerSession, Send, SessionEvents } from '../session/session.js';
import type { SqsRequests } from './client.js';
import { entryOf, type SqsEntry } from './entry.js';
import { EntryRefusal, isMissing, judge, SqsPublishError, statusOf } from './errors.js';
import type { Envelope } from '../envelope.js';
import type { SqsSettings } from './options.js';
import type { Queue, Queues } from './queues.js';

/** Of one request. */
const MOST_ENTRIES = 10;

interface Prepared {
  readonly send: Send;
  readonly queue: Queue;
  readonly entry: SqsEntry;
  readonly bytes: number;
}

/** A request on its way: a question for a URL, or messages. */
interface Request {
  readonly abort: AbortController;
  readonly number: number;
}

interface Lookup {
  readonly url: Promise<string>;
  /** Until it is answered. */
  request: Request | undefined;
}

export interface SqsParts {
  readonly requests: SqsRequests;
  readonly queues: Queues;
  readonly envelope: Envelope;
  readonly settings: SqsSettings;
  readonly events: SessionEvents;
}

/** Each request is answered by itself, and is sent once. It ends when SQS cannot be reached, or does not take the login any more. */
export class SqsSession implements BrokerSession {
  readonly window: number;
  /** What is not answered yet, and what it waits for. */
  private readonly open = new Map<Send, Request | undefined>();
  private readonly urls = new Map<string, Lookup>();
  private readonly underWay = new Set<AbortController>();
  /** Requests that wait until another one is answered. */
  private readonly waiting: (() => void)[] = [];
  isOver = false;
  private given = 0;
  /** The number of the last request that was answered. */
  private answered = 0;

  constructor(private readonly parts: SqsParts) {
    this.window = parts.settings.maxRequests * MOST_ENTRIES;
  }

  send(sends: readonly Send[]): void {
    const byQueue = new Map<string, Prepared[]>();
    for (const send of sends) {
      const prepared = this.prepare(send);
      if (prepared === undefined) continue;
      const { destination } = prepared.queue;
      const others = byQueue.get(destination);
      if (others === undefined) byQueue.set(destination, [prepared]);
      else others.push(prepared);
    }
    for (const all of byQueue.values()) void this.sendTo(all[0]!.queue, all);
  }

  /** Whoever shares a request with one of these cannot know either what became of it. */
  takeBack(sends: readonly Send[]): void {
    const requests = new Set(sends.flatMap((send) => this.open.get(send) ?? []));
    const isSilent = requests.size > 0 && [...requests].every(({ number }) => number > this.answered);
    for (const send of sends) this.open.delete(send);
    const reason = new SqsPublishError('PUBLISH_TIMEOUT', 'SQS did not answer in time.', 'timeout', undefined);
    const aborted = [...requests].map(({ abort }) => abort);
    this.parts.requests.abort(aborted, reason);
    if (isSilent) this.lost(reason);
  }

  destroy(reason: unknown): void {
    this.isOver = true;
    this.open.clear();
    this.waiting.splice(0);
    this.parts.requests.abort(this.underWay, reason);
    this.parts.requests.end();
  }

  close(): Promise<void> {
    this.destroy(new Error('The transport was closed.'));
    return Promise.resolve();
  }

  private prepare(send: Send): Prepared | undefined {
    const { envelope, queues, settings } = this.parts;
    try {
      const queue = queues.of(send.message.topic);
      const { isFifo } = queue;
      const made = entryOf(send.message, { envelope, isFifo, maxBytes: settings.maxMessageBytes });
      this.open.set(send, undefined);
      return { send, queue, ...made };
    } catch (error) {
      send.unsendable(error);
      return undefined;
    }
  }

  private async sendTo(queue: Queue, all: readonly Prepared[]): Promise<void> {
    try {
      const url = queue.url ?? (await this.urlOf(queue, all));
      for (const part of partsOf(all, this.parts.settings.maxMessageBytes)) void this.request(url, part);
    } catch (error) {
      this.refuse(all, error);
    }
  }

  private urlOf({ name }: Queue, all: readonly Prepared[]): Promise<string> {
    const { url, request } = this.urls.get(name) ?? this.look(name);
    for (const { send } of all) this.open.set(send, request);
    return url;
  }

  private look(name: string): Lookup {
    const request = this.begin();
    const asked = this.parts.requests.ask('GetQueueUrlCommand', { QueueName: name }, request.abort.signal);
    const url = asked.then(({ QueueUrl }) => {
      this.end(request, true);
      found.request = undefined;
      return QueueUrl!;
    });
    const found: Lookup = { url, request };
    this.urls.set(name, found);
    url.catch((error: unknown) => {
      this.end(request, isAnswer(error));
      if (this.urls.get(name) === found) this.urls.delete(name);
    });
    return found;
  }

  private async request(url: string, all: readonly Prepared[]): Promise<void> {
    if (this.underWay.size >= this.parts.settings.maxRequests)
      return void this.waiting.push(() => void this.request(url, all));
    const still = all.filter(({ send }) => this.open.has(send));
    if (still.length === 0) return queueMicrotask(() => this.waiting.shift()?.()); // not as deep as there are many
    const request = this.begin();
    for (const { send } of still) this.open.set(send, request);
    const Entries = still.map(({ entry }, n) => ({ Id: String(n), ...entry }));
    const asked = { QueueUrl: url, Entries };
    const answer = this.parts.requests.ask('SendMessageBatchCommand', asked, request.abort.signal);
    await answer.then(
      ({ Successful = [], Failed = [] }) => {
        this.end(request, true);
        for (const { Id } of Successful) this.answer(still[Number(Id)]);
        for (const { Id, Code, SenderFault } of Failed)
          this.answer(still[Number(Id)], new EntryRefusal(Code, SenderFault));
        this.refuse(still, new EntryRefusal('NoAnswer', false));
      },
      (error: unknown) => {
        this.end(request, isAnswer(error));
        if (isMissing(error)) this.urls.delete(still[0]!.queue.name);
        // Nothing of it was taken, and one of them may be why.
        if (still.length === 1 || judge(error).fault === 'transport') this.refuse(still, error);
        else for (const one of still) void this.request(url, [one]);
      },
    );
  }

  private begin(): Request {
    const request = { abort: new AbortController(), number: (this.given += 1) };
    this.underWay.add(request.abort);
    return request;
  }

  private end({ abort, number }: Request, isAnswered: boolean): void {
    this.underWay.delete(abort);
    this.waiting.shift()?.();
    if (isAnswered) this.answered = Math.max(this.answered, number);
  }

  private answer(prepared: Prepared | undefined, error?: unknown): void {
    if (prepared === undefined || !this.open.delete(prepared.send)) return;
    if (error === undefined) prepared.send.taken();
    else prepared.send.refused(error);
  }

  private refuse(all: readonly Prepared[], error: unknown): void {
    const open = all.filter(({ send }) => this.open.has(send));
    if (open.length === 0) return;
    for (const prepared of open) this.answer(prepared, error);
    if (isOfTheConnection(error)) this.lost(error);
  }

  private lost(error: unknown): void {
    if (!this.isOver) this.parts.events.lost(error);
  }
}

/** As many together as a request may hold, in their order. */
function partsOf(all: readonly Prepared[], maxBytes: number): Prepared[][] {
  const parts: Prepared[][] = [];
  let bytes = Infinity;
  for (const one of all) {
    const last = parts.at(-1);
    if (last === undefined || last.length === MOST_ENTRIES || bytes + one.bytes > maxBytes) {
      parts.push([one]);
      bytes = one.bytes;
    } else {
      last.push(one);
      bytes += one.bytes;
    }
  }
  return parts;
}

function isAnswer(error: unknown): boolean {
  return statusOf(error) > 0;
}
/** SQS was not reached, or does not know who asks: a new client finds new addresses and credentials. */
function isOfTheConnection(error: unknown): boolean {
  if (error instanceof EntryRefusal || statusOf(error) >= 500) return false;
  const { fault, suspect } = judge(error);
  return fault === 'transport' && suspect === undefined;
}
