import amqp, { type Channel, type ChannelModel } from 'amqplib';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { CANARY } from '../../security/canaries.js';
import { SEASONAL, TRANSPORTS } from '../settings.js';
import type { BrokerServer } from './broker.js';
import { OwnServer } from './own-server.js';

/** As whom relays and writers come. */
const USER = 'relay';

export const open = (): Promise<BrokerServer> => ChaosRabbitMq.open();

/** One exchange and one quorum queue for each transport, for two topics; nothing is bound to the topic `nowhere`. */
class ChaosRabbitMq extends OwnServer implements BrokerServer {
  version = '';

  private constructor(private readonly node: RabbitMqNode) {
    super();
  }

  static async open(): Promise<ChaosRabbitMq> {
    const node = await RabbitMqNode.start();
    await node.ctl('add_user', USER, CANARY.amqpPassword);
    await node.ctl('set_permissions', USER, '.*', '.*', '.*');
    const broker = new ChaosRabbitMq(node);
    await broker.onChannel(async (channel, { connection }) => {
      broker.version = String((connection as { serverProperties?: { version?: string } }).serverProperties?.version);
      for (const name of TRANSPORTS)
        await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
    });
    for (const name of TRANSPORTS) await broker.putBack(name);
    return broker;
  }

  get port(): number {
    return this.node.port;
  }
  get url(): string {
    return this.node.url;
  }
  urlThrough(port: number): string {
    return `amqp://${USER}:${CANARY.amqpPassword}@127.0.0.1:${port}`;
  }
  kill(): Promise<void> {
    return this.node.kill();
  }
  protected bringUp(): Promise<void> {
    return this.node.start();
  }
  /** An alarm blocks every connection that publishes. */
  stall(on: boolean): Promise<void> {
    return this.node.ctl('set_vm_memory_high_watermark', on ? '0' : '0.4');
  }
  closeConnections(): Promise<void> {
    return this.node.ctl('close_all_connections', 'chaos');
  }
  withdraw(transport: string): Promise<void> {
    return this.onChannel(async (channel) => void (await channel.unbindQueue(transport, transport, SEASONAL)));
  }
  dropExchange(transport: string): Promise<void> {
    return this.onChannel(async (channel) => void (await channel.deleteExchange(transport)));
  }
  putBack(transport: string): Promise<void> {
    return this.onChannel(async (channel) => {
      await channel.assertExchange(transport, 'direct', { durable: true });
      for (const topic of ['orders', SEASONAL]) await channel.bindQueue(transport, transport, topic);
    });
  }

  /** Of a connection for this alone. */
  private async onChannel(work: (channel: Channel, connection: ChannelModel) => Promise<void>): Promise<void> {
    const connection = await amqp.connect(this.url, { timeout: 3_000 });
    connection.on('error', () => undefined);
    try {
      const channel = await connection.createChannel();
      channel.on('error', () => undefined);
      await work(channel, connection);
    } finally {
      await connection.close().catch(() => undefined);
    }
  }
  protected clear(): Promise<void> {
    return this.node.remove();
  }
}
