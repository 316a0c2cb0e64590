import type { BrokerSession, Send, SessionEvents } from '../session/session.js';
import { kill, OURS, type RedisArgument, type RedisClient, type RedisConstructor } from './client.js';
import type { EntryEncoder } from './entry.js';
import {
  CONNECTION_CLOSED,
  endsConnection,
  FEW_REPLICAS,
  isOfProtocol,
  NO_STREAM,
  RedisFailure,
  toFailure,
} from './errors.js';
import { resolveRedisOptions, type RedisOptions, type RedisSettings } from './options.js';

/**
 * Opens a connection whose login is proved by an answer.
 *
 * @param onEnd called once, when it ends without {@link kill}
 */
export async function connectClient(
  Redis: RedisConstructor,
  { url, client: options }: Pick<RedisOptions, 'url' | 'client'>,
  signal: AbortSignal,
  onEnd: (failure: RedisFailure) => void = () => undefined,
): Promise<RedisClient> {
  const [at, given] = await Promise.all([asked(url), asked(options)]);
  resolveRedisOptions({ url: at, client: given } as RedisOptions);
  signal.throwIfAborted();
  const client = new Redis(OURS, at, { keepAlive: KEEP_ALIVE, ...given, ...OURS }); // a URL has options, too
  let failure: RedisFailure | undefined;
  const fail = (error: unknown): void => {
    if (failure !== undefined) return;
    failure = toFailure(error);
    onEnd(failure);
  };
  client.on('error', fail);
  client.on('close', () => fail(new RedisFailure('The connection ended.', CONNECTION_CLOSED)));
  const abort = (): void => kill(client);
  signal.addEventListener('abort', abort);
  try {
    await client.connect();
    await client.call('ping', []);
    if (failure !== undefined) throw failure as unknown; // of SELECT, which ioredis tells by an event
    return client;
  } catch (error) {
    kill(client);
    throw failure ?? toFailure(error);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Nothing from a function is no address: ioredis would take it for a server on this machine. */
async function asked<T>(given: T | (() => T | Promise<T>)): Promise<T> {
  return typeof given === 'function' ? ((await (given as () => T)()) ?? ('' as T)) : given;
}

/** One connection: Redis answers in the order in which commands were written. */
export class RedisSession implements BrokerSession {
  readonly window: number;
  /** Not written yet, as the socket takes no more. */
  private readonly waiting: (() => void)[] = [];
  private isWriting = false;
  private isOver = false;

  constructor(
    private readonly client: RedisClient,
    private readonly events: SessionEvents,
    private readonly encode: EntryEncoder,
    private readonly settings: RedisSettings,
  ) {
    this.window = settings.maxUnanswered;
    client.stream!.on('drain', () => this.write());
  }

  send(sends: readonly Send[]): void {
    const { waitReplicas } = this.settings;
    if (waitReplicas === undefined) for (const send of sends) this.waiting.push(() => this.add(send));
    else this.sendAndWait(sends, waitReplicas);
    this.write();
  }

  /** WAIT counts the replicas that have all that this connection wrote before it. */
  private sendAndWait(sends: readonly Send[], { replicas, timeout }: NonNullable<RedisSettings['waitReplicas']>): void {
    const added: Send[] = [];
    const refused: (() => void)[] = [];
    for (const send of sends) {
      const taken = (): void => void added.push(send);
      const held = { taken, refused: (error: unknown) => void refused.push(() => send.refused(error)) };
      this.waiting.push(() => this.add(send, held));
    }
    const settle = (failure?: RedisFailure): void => {
      for (const send of added)
        if (failure === undefined) send.taken();
        else send.refused(failure);
      for (const refuse of refused) refuse();
    };
    const answer = (reply: unknown): void =>
      settle(Number(reply) < replicas ? fewReplicas(Number(reply), replicas, timeout) : undefined);
    this.waiting.push(() => this.call('wait', [replicas, timeout], answer, settle));
  }

  /** Up to what the socket takes: what waits here is not sent when time is over. */
  private write(): void {
    const { client, events, waiting } = this;
    const stream = client.stream!;
    if (this.isWriting) return;
    this.isWriting = true;
    while (waiting.length > 0 && stream.writableLength < stream.writableHighWaterMark && events.mayWrite()) {
      stream.cork();
      for (const next of waiting.splice(0, AT_ONCE)) next();
      stream.uncork();
    }
    this.isWriting = false;
  }

  private add(send: Send, answered: Pick<Send, 'taken' | 'refused'> = send): void {
    let args: RedisArgument[];
    try {
      args = this.encode(send.message);
    } catch (error) {
      send.unsendable(error);
      return;
    }
    const answer = (id: unknown): void =>
      id === null ? answered.refused(new RedisFailure('There is no such stream.', NO_STREAM)) : answered.taken();
    this.call('xadd', args, answer, (failure) => answered.refused(failure));
  }

  private call(
    command: string,
    args: RedisArgument[],
    answer: (reply: unknown) => void,
    refuse: (failure: RedisFailure) => void,
  ): void {
    this.client.call(command, args).then(answer, (error: unknown) => {
      const failure = toFailure(error);
      if (endsConnection(failure)) return this.lost(failure);
      refuse(failure);
      // The server closes after it.
      if (isOfProtocol(failure)) this.lost(new RedisFailure(failure.message, CONNECTION_CLOSED));
    });
  }

  lost(failure: RedisFailure): void {
    if (this.isOver) return;
    this.isOver = true;
    this.events.lost(failure);
  }

  destroy(): void {
    this.isOver = true;
    this.waiting.length = 0;
    kill(this.client);
  }

  /** ioredis destroys a socket whose other end does not answer the goodbye. */
  close(): Promise<void> {
    this.isOver = true;
    return new Promise((resolve) => {
      this.client.on('end', () => resolve());
      this.client.disconnect();
    });
  }
}

const fewReplicas = (had: number, wanted: number, timeout: number): RedisFailure =>
  new RedisFailure(`${had} of ${wanted} replicas had it within ${timeout} ms.`, FEW_REPLICAS);

/** Milliseconds: a dead peer of an idle connection is noticed. */
const KEEP_ALIVE = 10_000;
/** Commands that the socket gets in one call. */
const AT_ONCE = 100;
