import { KafkaNode } from './kafka-node.js';
import { requiredUrl } from './services.js';
import { until } from './until.js';

interface Worker {
  readonly url: string;
  restart(): Promise<void>;
  kill(): Promise<void>;
  log(): Promise<string>;
  stop(): Promise<void>;
}
/** As a document has it, and as the worker takes it. */
export interface Connector {
  readonly name: string;
  readonly config: Readonly<Record<string, string>>;
}
interface Status {
  readonly state: string;
  readonly trace: string;
}

/** A Kafka Connect of its own, with Debezium's connectors. Takes some five seconds to start. */
export class KafkaConnect {
  private constructor(private readonly worker: Worker) {}

  /** Its jars come with mvn. */
  static get isInstalled(): boolean {
    return KafkaNode.isInstalled;
  }

  static async start(): Promise<KafkaConnect> {
    const { startKafkaConnect } = (await import('../../tools/services/kafka-connect.mjs' as string)) as {
      startKafkaConnect(brokers: string): Promise<Worker>;
    };
    return new KafkaConnect(await startKafkaConnect(requiredUrl('kafka')));
  }

  /** Makes the connector, or gives it another configuration; resolves when its task runs. */
  async run({ name, config }: { name: string; config: object }): Promise<void> {
    await this.ask('PUT', `/connectors/${name}/config`, config);
    await this.isRunning(name);
  }

  /** If its task failed, it is tried again from where it stood. */
  async resume(name: string): Promise<void> {
    if ((await this.status(name)).state === 'FAILED') await this.ask('POST', `/connectors/${name}/tasks/0/restart`);
  }

  private async isRunning(name: string): Promise<void> {
    await until(async () => {
      const { state, trace } = await this.status(name);
      if (state === 'FAILED') throw new Error(`${name} failed: ${trace}`);
      return state === 'RUNNING';
    }, 60_000);
  }

  /** Of its task; `MISSING` while it has none. */
  async status(name: string): Promise<Status> {
    const response = await fetch(`${this.worker.url}/connectors/${name}/status`);
    if (!response.ok) return { state: 'MISSING', trace: '' };
    const { tasks } = (await response.json()) as { tasks: { state: string; trace?: string }[] };
    return { state: tasks[0]?.state ?? 'MISSING', trace: tasks[0]?.trace ?? '' };
  }

  /** How far it has come, as the connector itself writes it down: an offset for each source. */
  async offsets(name: string): Promise<Record<string, unknown>[]> {
    const response = await fetch(`${this.worker.url}/connectors/${name}/offsets`);
    const { offsets } = (await response.json()) as { offsets: { offset: Record<string, unknown> }[] };
    return offsets.map(({ offset }) => offset);
  }

  /** It has read what was in the tables, and goes on in the log; its heartbeats say so. */
  async isStreaming(name: string): Promise<void> {
    await until(async () => {
      const [offset] = await this.offsets(name);
      return offset !== undefined && offset['snapshot'] === undefined;
    }, 60_000);
  }

  /** Stops it, and has it begin there when it runs again. */
  async moveTo(name: string, offset: object): Promise<void> {
    await this.ask('PUT', `/connectors/${name}/stop`);
    const path = `/connectors/${name}/offsets`;
    await until(async () => (await this.status(name)).state === 'MISSING');
    const offsets = [{ partition: { server: name }, offset }];
    await this.ask('PATCH', path, { offsets });
    await this.remove(name);
  }

  async remove(name: string): Promise<void> {
    await this.ask('DELETE', `/connectors/${name}`);
  }

  private async ask(method: string, path: string, body?: unknown): Promise<void> {
    const json = { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    const response = await fetch(`${this.worker.url}${path}`, { method, ...(body === undefined ? {} : json) });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  }

  /** SIGKILL. */
  kill(): Promise<void> {
    return this.worker.kill();
  }
  /** It knows no connectors then, but how far each had come. */
  restart(): Promise<void> {
    return this.worker.restart();
  }
  log(): Promise<string> {
    return this.worker.log();
  }
  stop(): Promise<void> {
    return this.worker.stop();
  }
}
