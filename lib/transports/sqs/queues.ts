import { QUEUE_URL, SqsPublishError } from './errors.js';
import { isQueueUrl, type SqsSettings } from './options.js';

/** Where a topic goes. */
export interface Queue {
  /** As `PublishFailure.destination` has it. */
  readonly destination: string;
  readonly name: string;
  /** Given by the application; else SQS is asked for it. */
  readonly url?: string;
  readonly isFifo: boolean;
}

/** Topics whose queues are remembered. */
const MOST = 10_000;

/** The queues of topics, each made out once. */
export class Queues {
  private readonly known = new Map<string, Queue>();

  constructor(private readonly settings: Pick<SqsSettings, 'queuePrefix' | 'queueSuffix' | 'queueUrl'>) {}

  /** @throws what `queueUrl` throws, and where it gives no URL */
  of(topic: string): Queue {
    const { queueUrl } = this.settings;
    if (typeof queueUrl === 'function') return this.make(topic, asked(queueUrl, topic));
    const known = this.known.get(topic);
    if (known !== undefined) return known;
    if (this.known.size >= MOST) this.known.clear();
    const queue = this.make(
      topic,
      queueUrl !== undefined && Object.hasOwn(queueUrl, topic) ? queueUrl[topic] : undefined,
    );
    this.known.set(topic, queue);
    return queue;
  }

  /** What is wrong with a topic that has no URL. */
  problemOf(topic: string): string | undefined {
    const { queueUrl = {} } = this.settings;
    if (typeof queueUrl === 'function' || Object.hasOwn(queueUrl, topic)) return undefined;
    const name = this.nameOf(topic);
    if (name.length > 80) return 'makes the name of a queue that is longer than 80 characters';
    if (topic !== '' && /^[\w-]+(\.fifo)?$/.test(name)) return undefined;
    return 'is no name of a queue, which may hold only letters, digits, "-" and "_", and end with ".fifo"; queueUrl can map it to one';
  }

  private nameOf(topic: string): string {
    return this.settings.queuePrefix + topic + this.settings.queueSuffix;
  }

  private make(topic: string, url: string | undefined): Queue {
    const name = this.nameOf(topic);
    if (url === undefined) return { destination: `queue "${name}"`, name, isFifo: name.endsWith('.fifo') };
    if (!isQueueUrl(url)) throw noUrl('gave no URL of a queue');
    return { destination: `queue "${url}"`, name, url, isFifo: url.endsWith('.fifo') };
  }
}

function asked(queueUrl: (topic: string) => string | undefined, topic: string): string | undefined {
  try {
    return queueUrl(topic);
  } catch (error) {
    throw noUrl('threw', error);
  }
}

function noUrl(what: string, cause?: unknown): SqsPublishError {
  return new SqsPublishError('PUBLISH_REJECTED', `queueUrl ${what}.`, QUEUE_URL, cause);
}
