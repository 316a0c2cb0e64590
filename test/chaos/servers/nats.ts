import { jetstreamManager, type JetStreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { CANARY } from '../../security/canaries.js';
import { NatsNode } from '../../support/nats-node.js';
import { untilDone } from '../../support/until.js';
import { SEASONAL, TRANSPORTS } from '../settings.js';
import type { BrokerServer } from './broker.js';
import { OwnServer } from './own-server.js';

/** As whom all come. */
const LOGIN = { user: 'relay', pass: CANARY.amqpPassword };

export const open = (): Promise<BrokerServer> => ChaosNats.open();

/** A stream for each transport, with two subjects; no stream takes `alpha.nowhere` and `beta.nowhere`. */
class ChaosNats extends OwnServer implements BrokerServer {
  version = '';

  private constructor(private readonly node: NatsNode) {
    super();
  }

  static async open(): Promise<ChaosNats> {
    const { user, pass } = LOGIN;
    const broker = new ChaosNats(await NatsNode.start(`authorization { user: ${user}, password: "${pass}" }`));
    await broker.manage(async (manager, version) => {
      broker.version = version;
      for (const name of TRANSPORTS)
        await manager.streams.add({ name, subjects: subjectsOf(name, 'orders', SEASONAL) });
    });
    return broker;
  }

  get port(): number {
    return this.node.port;
  }
  get url(): string {
    return this.urlThrough(this.port);
  }
  urlThrough(port: number): string {
    return `nats://${LOGIN.user}:${LOGIN.pass}@127.0.0.1:${port}`;
  }
  kill(): Promise<void> {
    return this.node.kill();
  }
  protected bringUp(): Promise<void> {
    return this.node.start();
  }
  /** Frozen: it has the connections and answers nothing. */
  async stall(on: boolean): Promise<void> {
    if (on) await this.node.pause();
    else this.node.goOn();
  }
  withdraw(transport: string): Promise<void> {
    return this.take(transport, 'orders');
  }
  putBack(transport: string): Promise<void> {
    return this.take(transport, 'orders', SEASONAL);
  }
  protected clear(): Promise<void> {
    return this.node.remove();
  }

  private take(name: string, ...topics: string[]): Promise<void> {
    return this.manage(
      async ({ streams }) => void (await streams.update(name, { subjects: subjectsOf(name, ...topics) })),
    );
  }

  /** Over a connection for this alone. */
  private async manage(work: (manager: JetStreamManager, version: string) => Promise<void>): Promise<void> {
    await untilDone(async () => {
      const connection = await connect({ servers: this.node.address, ...LOGIN, reconnect: false });
      try {
        await work(await jetstreamManager(connection), connection.info!.version);
      } finally {
        await connection.close();
      }
    });
  }
}

const subjectsOf = (name: string, ...topics: string[]): string[] => topics.map((topic) => `${name}.${topic}`);
