import { setTimeout as pause } from 'node:timers/promises';
import { CreateQueueCommand, DeleteQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { SEASONAL, TRANSPORTS } from '../settings.js';
import type { BrokerServer, WhenReadOut } from './broker.js';
import { OwnServer } from './own-server.js';

interface ElasticMq {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}
/** Queues alpha-orders.fifo and alpha-seasonal.fifo, and of beta the same. */
const queueOf = (transport: string, topic: string): string => `${transport}-${topic}.fifo`;

export const open = (): Promise<BrokerServer> => ChaosSqs.open();

/**
 * ElasticMQ behind a door. SQS does not lose what it took, and ElasticMQ is fast in memory alone: so it is not killed, but all
 * connections break, and there are no others until it is started again.
 */
class ChaosSqs extends OwnServer implements BrokerServer {
  private readonly client: SQSClient;

  private constructor(
    private readonly server: ElasticMq,
    private readonly door: TcpProxy,
    readonly version: string,
  ) {
    super();
    const credentials = { accessKeyId: 'chaos', secretAccessKey: 'chaos' };
    this.client = new SQSClient({ endpoint: server.url, region: 'elasticmq', credentials });
  }

  static async open(): Promise<ChaosSqs> {
    const { startElasticMq, elasticMqVersion } = (await import('../../../tools/services/elasticmq.mjs' as string)) as {
      startElasticMq(): Promise<ElasticMq>;
      elasticMqVersion(): Promise<string>;
    };
    const server = await startElasticMq();
    const broker = new ChaosSqs(server, await TcpProxy.start(server.url), await elasticMqVersion());
    for (const name of TRANSPORTS) for (const topic of ['orders', SEASONAL]) await broker.create(name, topic);
    return broker;
  }

  get port(): number {
    return this.door.port;
  }
  get url(): string {
    return this.urlThrough(this.port);
  }
  urlThrough(port: number): string {
    return `http://127.0.0.1:${port}`;
  }
  async kill(): Promise<void> {
    await this.door.refuse();
    this.door.cut();
  }
  protected async bringUp(): Promise<void> {
    await this.stall(false);
    await this.door.accept();
  }
  /** Frozen: it has the connections and answers nothing. */
  async stall(on: boolean): Promise<void> {
    process.kill(this.server.pid, on ? 'SIGSTOP' : 'SIGCONT');
  }
  async closeConnections(): Promise<void> {
    this.door.cut('fin');
  }
  async withdraw(transport: string, whenReadOut: WhenReadOut): Promise<void> {
    await whenReadOut(async () => {
      const QueueUrl = `${this.server.url}/000000000000/${queueOf(transport, SEASONAL)}`;
      await this.client.send(new DeleteQueueCommand({ QueueUrl }));
      await pause(50);
    });
  }
  putBack(transport: string): Promise<void> {
    return this.create(transport, SEASONAL);
  }
  protected async clear(): Promise<void> {
    this.client.destroy();
    await this.stall(false);
    await this.door.close();
    await this.server.stop();
  }

  /** A message whose consumer was cut off comes again soon. */
  private async create(transport: string, topic: string): Promise<void> {
    const Attributes = { FifoQueue: 'true', VisibilityTimeout: '3' };
    await this.client.send(new CreateQueueCommand({ QueueName: queueOf(transport, topic), Attributes }));
  }
}
