import { setTimeout as pause } from 'node:timers/promises';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  type Message,
} from '@aws-sdk/client-sqs';
import { SEASONAL } from '../settings.js';
import type { Sight, Visitor } from './consumer-process.js';

/** Of one queue at the same time. Those of one group come one after the other. */
const READERS = 3;
/** Milliseconds in which a queue that nobody writes to must be read to its end. */
const READ_OUT = 3_000;

/** Reads one queue; what it deletes it has seen. */
class Reader {
  private readonly stopped = new AbortController();
  private readonly loops: Promise<void>[];

  constructor(
    private readonly client: SQSClient,
    private readonly url: string,
    private readonly see: (message: Message) => void,
  ) {
    this.loops = Array.from({ length: READERS }, () => this.loop());
  }

  private async loop(): Promise<void> {
    const asked = new ReceiveMessageCommand({
      QueueUrl: this.url,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 1,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['ApproximateReceiveCount', 'SentTimestamp'],
    });
    while (!this.stopped.signal.aborted) {
      try {
        const { Messages = [] } = await this.client.send(asked, { abortSignal: AbortSignal.timeout(5_000) });
        for (const message of Messages) this.see(message);
        const Entries = Messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }));
        if (Entries.length > 0)
          await this.client.send(new DeleteMessageBatchCommand({ QueueUrl: this.url, Entries }), {
            abortSignal: AbortSignal.timeout(5_000),
          });
      } catch {
        await pause(100); // what was seen and not deleted comes again
      }
    }
  }

  /** Twice, as what was received may come again. */
  async isReadOut(): Promise<boolean> {
    const AttributeNames = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const;
    const asked = new GetQueueAttributesCommand({ QueueUrl: this.url, AttributeNames: [...AttributeNames] });
    let times = 0;
    for (const deadline = performance.now() + READ_OUT; times < 2 && performance.now() < deadline; await pause(200)) {
      const { Attributes } = await this.client.send(asked);
      times = AttributeNames.every((name) => Attributes![name] === '0') ? times + 1 : 0;
    }
    return times >= 2;
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    await Promise.all(this.loops);
  }
}

/** Two queues for each transport: one that stays, and one that comes and goes. */
export async function consume(url: string, transports: readonly string[], sight: Sight): Promise<Visitor> {
  const credentials = { accessKeyId: 'chaos', secretAccessKey: 'chaos' };
  const client = new SQSClient({ endpoint: url, region: 'elasticmq', credentials, maxAttempts: 1 });
  const read = (transport: number, topic: string): Reader =>
    new Reader(client, `${url}/000000000000/${transports[transport]}-${topic}.fifo`, (message) =>
      see(message, transport, sight),
    );
  for (const transport of transports.keys()) read(transport, 'orders');
  const seasonal = new Map([...transports.keys()].map((transport) => [transport, read(transport, SEASONAL)]));
  return {
    async join(transport) {
      if (!seasonal.has(transport)) seasonal.set(transport, read(transport, SEASONAL));
    },
    async leave(transport) {
      const reader = seasonal.get(transport);
      if (reader === undefined) return true;
      if (!(await reader.isReadOut())) return false;
      seasonal.delete(transport);
      await reader.stop();
      return true;
    },
  };
}

function see({ Body = '', MessageAttributes = {}, Attributes = {} }: Message, transport: number, sight: Sight): void {
  const text = (name: string): string | undefined => MessageAttributes[name]?.StringValue;
  const encoding = text('body-encoding');
  const payload = encoding === 'tombstone' ? null : Buffer.from(Body, encoding === 'base64' ? 'base64' : 'utf8');
  const isRedelivered = Number(Attributes.ApproximateReceiveCount) > 1;
  sight(transport, Number(text('run')), isRedelivered, payload, Number(Attributes.SentTimestamp));
}
