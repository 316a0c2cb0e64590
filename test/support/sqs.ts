import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  type Message,
} from '@aws-sdk/client-sqs';
import type { HeaderValue } from '../../lib/index.js';
import type { SqsClientConfig } from '../../lib/transports/sqs/index.js';
import type { ReceivedMessage } from './publish.js';

export interface SqsMessage extends ReceivedMessage {
  readonly raw: Message;
  readonly headers: Readonly<Record<string, HeaderValue>>;
}

/** For the server at this URL, as the transport or a client of a test is told. ElasticMQ checks no credentials. */
export const configFor = (url: string): SqsClientConfig & { endpoint: string } => ({
  endpoint: url,
  region: 'elasticmq',
  credentials: { accessKeyId: 'outbox', secretAccessKey: 'outbox' },
});

/** An independent view of a server: own client, own queues, removed at the end. */
export class SqsObserver {
  readonly prefix = `outbox-test-${randomBytes(5).toString('hex')}`;
  readonly client: SQSClient;
  private readonly urls = new Map<string, string>();
  private readonly messages = new Map<string, SqsMessage[]>();

  constructor(url: string) {
    this.client = new SQSClient(configFor(url) as object);
  }

  unusedName(suffix = ''): string {
    return `${this.prefix}-${randomBytes(3).toString('hex')}${suffix}`;
  }

  async queue(name = this.unusedName()): Promise<string> {
    const Attributes = name.endsWith('.fifo') ? { FifoQueue: 'true' } : undefined;
    const { QueueUrl } = await this.client.send(new CreateQueueCommand({ QueueName: name, Attributes }));
    this.urls.set(name, QueueUrl!);
    return name;
  }

  urlOf(name: string): string {
    return this.urls.get(name)!;
  }

  async remove(name: string): Promise<void> {
    await this.client.send(new DeleteQueueCommand({ QueueUrl: this.urlOf(name) }));
    this.urls.delete(name);
  }

  /** Everything so far, once it is `count` or more; fails when nothing arrived for `timeout`. */
  async received(name: string, count: number, timeout = 60_000): Promise<readonly SqsMessage[]> {
    const found = this.messages.get(name) ?? [];
    this.messages.set(name, found);
    for (let since = performance.now(); found.length < count;) {
      const some = await this.receive(name);
      found.push(...some);
      if (some.length > 0) since = performance.now();
      else if (performance.now() - since > timeout)
        throw new Error(`${found.length} of ${count} messages and ${timeout} ms without another`);
    }
    return found;
  }

  /** What arrived until each of these did; who was in doubt may be there twice. */
  async receivedAll(name: string, ids: readonly string[]): Promise<readonly SqsMessage[]> {
    let found = await this.received(name, ids.length);
    while (!ids.every((id) => found.some((message) => message.id === id)))
      found = await this.received(name, found.length + 1);
    return found;
  }

  /** Messages in the queue that nobody took yet. */
  async depth(name: string): Promise<number> {
    const asked = { QueueUrl: this.urlOf(name), AttributeNames: ['ApproximateNumberOfMessages' as const] };
    const { Attributes } = await this.client.send(new GetQueueAttributesCommand(asked));
    return Number(Attributes!['ApproximateNumberOfMessages']);
  }

  private async receive(name: string): Promise<SqsMessage[]> {
    const QueueUrl = this.urlOf(name);
    const input = { QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: ['All'] };
    const attributes = [
      'MessageGroupId',
      'MessageDeduplicationId',
      'SentTimestamp',
      'ApproximateReceiveCount',
    ] as const;
    const asked = new ReceiveMessageCommand({ ...input, MessageSystemAttributeNames: [...attributes] });
    const { Messages = [] } = await this.client.send(asked).catch(async (error: unknown) => {
      await pause(100); // of a server that is away
      if ((error as { name?: string }).name === 'QueueDoesNotExist') throw error;
      return { Messages: [] };
    });
    if (Messages.length === 0) return [];
    const Entries = Messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }));
    await this.client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    return Messages.map(seen);
  }

  async close(): Promise<void> {
    for (const name of [...this.urls.keys()]) await this.remove(name).catch(() => undefined);
    this.client.destroy();
  }
}

/** As the page of SQS says. */
function seen(raw: Message): SqsMessage {
  const attributes = Object.entries(raw.MessageAttributes ?? {}).map(
    ([name, { StringValue, BinaryValue }]) => [name, StringValue ?? BinaryValue!] as const,
  );
  const { headers: rest, ...own } = Object.fromEntries(attributes);
  const headers = { ...own, ...(rest === undefined ? {} : (JSON.parse(rest as string, bytes) as object)) };
  const { id, key, 'body-encoding': encoding } = headers as Record<string, string | undefined>;
  return { raw, id: id!, key: key ?? null, headers, payload: payloadOf(raw.Body!, encoding) };
}

function payloadOf(body: string, encoding: string | undefined): Buffer | null {
  if (encoding === 'tombstone') return null;
  if (encoding === 'empty') return Buffer.alloc(0);
  return Buffer.from(body, encoding === 'base64' ? 'base64' : 'utf8');
}

function bytes(_name: string, value: unknown): unknown {
  const { base64 } = Object(value) as { base64?: unknown };
  return typeof base64 === 'string' ? Buffer.from(base64, 'base64') : value;
}
