import { CANARY } from '../../security/canaries.js';
import { MqttNode } from '../../support/mqtt-node.js';
import type { BrokerServer, WhenReadOut } from './broker.js';
import { OwnServer } from './own-server.js';

/** As whom relays and writers come; the consumer has another name. */
const USER = 'relay';
const PASSWORDS = { [USER]: CANARY.amqpPassword, consumer: 'consumer' };
const SETTINGS = [
  ...['persistence true', 'persistence_location %/'],
  // 20 and 1,000 by default: what is above the latter is dropped, and counts as published.
  ...['max_inflight_messages 1000', 'max_queued_messages 0'],
];

export const open = async (): Promise<BrokerServer> => new ChaosMosquitto(await MqttNode.start(SETTINGS, PASSWORDS));

/** One session of the consumer, which subscribes to two topics of each transport; nobody subscribes to `nowhere`. */
class ChaosMosquitto extends OwnServer implements BrokerServer {
  readonly version = MqttNode.version();

  constructor(private readonly node: MqttNode) {
    super();
  }

  get port(): number {
    return this.node.port;
  }
  get url(): string {
    return `mqtt://consumer:${PASSWORDS.consumer}@127.0.0.1:${this.port}`;
  }
  urlThrough(port: number): string {
    return `mqtt://${USER}:${CANARY.amqpPassword}@127.0.0.1:${port}`;
  }
  /** With a goodbye: what Mosquitto has answered is in memory until it ends, or saves, and no relay can know what a SIGKILL takes. */
  kill(): Promise<void> {
    return this.node.stop('SIGTERM');
  }
  protected bringUp(): Promise<void> {
    return this.node.start();
  }
  /** Frozen: it has the connections and answers nothing. */
  async stall(on: boolean): Promise<void> {
    this.node.signal(on ? 'SIGSTOP' : 'SIGCONT');
  }
  /** There is no topic but by who subscribes to it. */
  withdraw(_transport: string, whenReadOut: WhenReadOut): Promise<void> {
    return whenReadOut(async () => undefined);
  }
  async putBack(): Promise<void> {}
  protected clear(): Promise<void> {
    return this.node.remove();
  }
}
