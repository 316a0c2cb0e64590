import { Redis } from 'ioredis';
import { CANARY } from '../../security/canaries.js';
import { OwnRedis } from '../../support/redis-server.js';
import { SEASONAL, TRANSPORTS } from '../settings.js';
import type { BrokerServer } from './broker.js';
import { OwnServer } from './own-server.js';

/** As whom relays and writers come. */
const USER = 'relay';

export const open = (): Promise<BrokerServer> => ChaosRedis.open();

/** Streams `alpha.orders` and `alpha.seasonal`, and of beta the same; `alpha.nowhere` and `beta.nowhere` are no streams. */
class ChaosRedis extends OwnServer implements BrokerServer {
  version = '';

  private constructor(private readonly server: OwnRedis) {
    super();
  }

  static async open(): Promise<ChaosRedis> {
    const redis = new ChaosRedis(
      await OwnRedis.start({
        appendonly: 'yes',
        appendfsync: 'always',
        [`user ${USER}`]: `on >${CANARY.amqpPassword} ~* +@all`,
      }),
    );
    await redis.withClient(async (client) => {
      redis.version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? '';
      for (const name of TRANSPORTS) {
        for (const topic of ['orders', SEASONAL])
          await client.xgroup('CREATE', `${name}.${topic}`, 'chaos', '0', 'MKSTREAM');
        await client.set(`${name}.nowhere`, 'no stream');
      }
    });
    return redis;
  }

  get port(): number {
    return this.server.port;
  }
  get url(): string {
    return this.server.url;
  }
  urlThrough(port: number): string {
    return `redis://${USER}:${CANARY.amqpPassword}@127.0.0.1:${port}`;
  }
  kill(): Promise<void> {
    return this.server.kill();
  }
  protected bringUp(): Promise<void> {
    return this.server.start();
  }
  /** Frozen: it has the connections and answers nothing. */
  async stall(on: boolean): Promise<void> {
    this.server.signal(on ? 'SIGSTOP' : 'SIGCONT');
  }
  closeConnections(): Promise<void> {
    return this.withClient(async (client) => void (await client.call('CLIENT', 'KILL', 'TYPE', 'normal')));
  }
  /** Under another name it keeps what it took. */
  withdraw(transport: string): Promise<void> {
    return this.rename(`${transport}.${SEASONAL}`, `${transport}.away`);
  }
  putBack(transport: string): Promise<void> {
    return this.rename(`${transport}.away`, `${transport}.${SEASONAL}`);
  }

  private rename(from: string, to: string): Promise<void> {
    return this.withClient(async (client) => {
      if ((await client.exists(from)) === 1) await client.rename(from, to);
    });
  }
  private async withClient(work: (client: Redis) => Promise<void>): Promise<void> {
    const client = new Redis(this.url, { maxRetriesPerRequest: null });
    client.on('error', () => undefined);
    try {
      await work(client);
    } finally {
      client.disconnect();
    }
  }
  protected clear(): Promise<void> {
    return this.server.remove();
  }
}
