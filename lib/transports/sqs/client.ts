import { loadPeer } from '../load-peer.js';
import { guardSockets, type SocketGuard } from './sockets.js';

/**
 * The part of `@aws-sdk/client-sqs` that is used. Own types: the package's declarations must compile without it.
 * `SQSClient` is assignable.
 */
export interface SqsClient {
  // As the SDK declares it, with overloads for each command; nothing narrower takes them all.
  // oxlint-disable-next-line typescript/no-explicit-any
  send(command: any, options?: any): Promise<any>;
  destroy(): void;
}

/** The configuration of an `SQSClient`. Its other fields are handed on as they are. */
export interface SqsClientConfig {
  /** Names the AWS region. Default: that of the environment, as the SDK finds it. */
  region?: string | (() => Promise<string>);
  /** Is the URL of a server that speaks the protocol of SQS. Default: that of the region. */
  endpoint?: unknown;
  /** Is a key pair or a provider of one. Default: the SDK's chain of providers. */
  credentials?: unknown;
  /** Is the SDK's handler of HTTP requests, or its options. Default: one with `maxRequests` connections. */
  requestHandler?: unknown;
  readonly [field: string]: unknown;
}

type Next = (args: unknown) => Promise<{ readonly output: unknown }>;
type Middleware = (next: Next) => Next;
/** A command of the SDK, with middleware of its own. */
interface Command {
  readonly middlewareStack: {
    add(middleware: Middleware, options: object): void;
    addRelativeTo(middleware: Middleware, options: object): void;
  };
}
type CommandClass = new (input: object) => Command;

interface SqsSdk {
  readonly SQSClient: new (config: object) => SqsClient;
  readonly GetQueueUrlCommand: CommandClass;
  readonly GetQueueAttributesCommand: CommandClass;
  readonly SendMessageBatchCommand: CommandClass;
}

/** What SQS answers to each question. */
interface Answers {
  GetQueueUrlCommand: { readonly QueueUrl?: string };
  GetQueueAttributesCommand: { readonly Attributes?: Readonly<Record<string, string>> };
  SendMessageBatchCommand: {
    readonly Successful?: readonly { readonly Id: string }[];
    readonly Failed?: readonly { readonly Id: string; readonly Code: string; readonly SenderFault: boolean }[];
  };
}

/** Requests over one client. None is sent twice, whatever the client's own settings say of retries. */
export class SqsRequests {
  private constructor(
    private readonly sdk: SqsSdk,
    private readonly client: SqsClient,
    private readonly isOwn: boolean,
    private readonly guard: SocketGuard | undefined,
    private readonly mayWrite: () => boolean,
  ) {}

  /** @param given the application's client, which stays open; or what one is made of */
  static async open(
    given: SqsClient | SqsClientConfig,
    maxRequests: number,
    useQueueUrlAsEndpoint: boolean,
    mayWrite: () => boolean = () => true,
  ): Promise<SqsRequests> {
    const load = (): Promise<unknown> => import('@aws-sdk/client-sqs');
    const sdk = (await loadPeer('sqs()', '@aws-sdk/client-sqs', load)) as SqsSdk;
    if (isSqsClient(given)) return new SqsRequests(sdk, given, false, undefined, mayWrite);
    const guard = guardSockets(given.requestHandler, maxRequests, mayWrite);
    const requestHandler = guard?.requestHandler ?? given.requestHandler;
    const client = new sdk.SQSClient({ useQueueUrlAsEndpoint, ...given, maxAttempts: 1, requestHandler });
    return new SqsRequests(sdk, client, true, guard, mayWrite);
  }

  /** @throws what SQS or the connection said */
  async ask<Name extends keyof Answers>(name: Name, input: object, signal: AbortSignal): Promise<Answers[Name]> {
    const command = new this.sdk[name](input);
    /** How it ended, before the SDK has looked at it. */
    let told: { readonly answer?: { readonly output: unknown }; readonly error?: unknown } | undefined;
    const { middlewareStack } = command;
    middlewareStack.addRelativeTo(
      (next) => async (args) => {
        told ??= await next(args).then(
          (answer) => ({ answer }),
          (error: unknown) => ({ error }),
        );
        if (told.answer !== undefined) return told.answer;
        throw new Error('Not to be sent again.'); // which the SDK knows no reason to try again
      },
      { relation: 'after', toMiddleware: 'retryMiddleware', name: 'nestjsOutboxOnce' },
    );
    middlewareStack.add(
      (next) => (args) => {
        if (!this.mayWrite()) throw new Error('The connection was given up.');
        return next(args);
      },
      { step: 'finalizeRequest', priority: 'low', name: 'nestjsOutboxMayWrite' },
    );
    try {
      return (await this.client.send(command, { abortSignal: signal })) as Answers[Name];
    } catch (error) {
      // Also where the SDK can make no MD5, or another one: the signature covers the body.
      if (told?.answer !== undefined) return told.answer.output as Answers[Name];
      throw told === undefined ? error : told.error;
    }
  }

  /** Nothing more of these leaves the process; of what has left it, what the kernel still holds is thrown away. */
  abort(requests: Iterable<AbortController>, reason: unknown): void {
    const abortAll = (): void => {
      for (const request of requests) request.abort(reason);
    };
    if (this.guard === undefined) abortAll();
    else this.guard.cutting(abortAll);
  }

  end(): void {
    if (this.isOwn) this.client.destroy();
  }
}

export function isSqsClient(given: unknown): given is SqsClient {
  return typeof (given as Partial<SqsClient> | null | undefined)?.send === 'function';
}
