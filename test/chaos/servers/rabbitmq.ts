import amqp from 'amqplib';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { CANARY } from '../../security/canaries.js';
import { TRANSPORTS } from '../settings.js';
import type { BrokerServer } from './broker.js';
import { OwnServer } from './own-server.js';

/** As whom relays and writers come. */
const USER = 'relay';

/** One exchange and one quorum queue for each transport; nothing is bound to the topic `nowhere`. */
export class ChaosRabbitMq extends OwnServer implements BrokerServer {
  version = '';

  private constructor(private readonly node: RabbitMqNode) {
    super();
  }

  static async open(): Promise<ChaosRabbitMq> {
    const node = await RabbitMqNode.start();
    await node.ctl('add_user', USER, CANARY.amqpPassword);
    await node.ctl('set_permissions', USER, '.*', '.*', '.*');
    const broker = new ChaosRabbitMq(node);
    const connection = await amqp.connect(broker.url);
    broker.version = String(
      (connection.connection as { serverProperties?: { version?: string } }).serverProperties?.version,
    );
    const channel = await connection.createChannel();
    for (const name of TRANSPORTS) {
      await channel.assertExchange(name, 'direct', { durable: true });
      await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
      await channel.bindQueue(name, name, 'orders');
    }
    await connection.close();
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
  protected clear(): Promise<void> {
    return this.node.remove();
  }
}
