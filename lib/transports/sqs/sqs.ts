import type { OutboxMessage } from '../../outbox-message.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { markFactory } from '../../options/factory-options.js';
import { brokerAddress } from '../broker-address.js';
import type { Finding } from '../diagnosis.js';
import { createEnvelope } from '../envelope.js';
import type { BrokerClient, BrokerSession, SessionEvents, Verdict } from '../session/session.js';
import { SessionTransport } from '../session/transport.js';
import type { BrokerQuestion, ExpectedMessages, MissingDestination, TransportLimits } from '../transport.js';
import { diagnose, findMissing, prove } from './ask.js';
import { isSqsClient, SqsRequests } from './client.js';
import { judge } from './errors.js';
import { sqsLimits } from './limits.js';
import { resolveSqsOptions, type SqsOptions, type SqsSettings } from './options.js';
import { Queues, type Queue } from './queues.js';
import { SqsSession } from './session.js';

/** Publishes to Amazon SQS through `@aws-sdk/client-sqs`, which is loaded when a relay starts. */
export function sqs(options: SqsOptions): TransportDefinition {
  const settings = resolveSqsOptions(options);
  const { client } = settings;
  const endpoint = isSqsClient(client) ? undefined : client.endpoint;
  const broker = typeof endpoint === 'string' ? brokerAddress([endpoint]) : undefined;
  const { limits } = new SqsBroker(settings);
  return {
    kind: 'sqs',
    ...(broker === undefined ? {} : { broker }),
    receipt: 'broker',
    limits,
    create: () => Promise.resolve(new SessionTransport(new SqsBroker(settings))),
  };
}
markFactory(sqs, 'sqs({ … })');

class SqsBroker implements BrokerClient {
  readonly name = 'SQS';
  readonly limits: TransportLimits;
  private readonly queues: Queues;
  private readonly envelope;

  constructor(private readonly settings: SqsSettings) {
    this.queues = new Queues(settings);
    this.envelope = createEnvelope({ headers: settings.headers });
    this.limits = sqsLimits(settings, this.queues, this.envelope);
  }

  async open(signal: AbortSignal, events: SessionEvents): Promise<BrokerSession> {
    const { settings, queues, envelope } = this;
    let session: SqsSession | undefined;
    const mayWrite = (): boolean => session === undefined || (!session.isOver && events.mayWrite());
    const { client, maxRequests, queueUrl } = settings;
    const requests = await SqsRequests.open(client, maxRequests, queueUrl !== undefined, mayWrite);
    try {
      await prove(requests, signal);
    } catch (error) {
      requests.end();
      throw error;
    }
    return (session = new SqsSession({ requests, queues, envelope, settings, events }));
  }

  judge(error: unknown, message?: OutboxMessage): Verdict {
    return judge(error, message && this.queueOf(message));
  }

  destinationOf(message: OutboxMessage): string | readonly string[] {
    return this.queueOf(message)?.destination ?? [];
  }

  findMissing(expected: readonly ExpectedMessages[], signal: AbortSignal): Promise<readonly MissingDestination[]> {
    return this.beside(signal, (requests) => findMissing(requests, this.queues, expected, signal));
  }

  diagnose(question: BrokerQuestion, signal: AbortSignal): Promise<readonly Finding[]> {
    return this.beside(signal, (requests) => diagnose(requests, this.queues, question, this.settings, signal));
  }

  private queueOf({ topic }: OutboxMessage): Queue | undefined {
    try {
      return this.queues.of(topic);
    } catch {
      return undefined; // of a function of the application
    }
  }

  /** Over a client of its own, unless it is the application's. */
  private async beside<T>(signal: AbortSignal, ask: (requests: SqsRequests) => Promise<T>): Promise<T> {
    const { client, maxRequests, queueUrl } = this.settings;
    // Where SQS gives the URLs, it takes the messages at the address that was asked, whatever host a URL names.
    const requests = await SqsRequests.open(client, maxRequests, queueUrl !== undefined);
    try {
      await prove(requests, signal);
      return await ask(requests);
    } finally {
      requests.end();
    }
  }
}
