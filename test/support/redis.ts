import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { HeaderValue } from '../../lib/index.js';
import type { ReceivedMessage } from './publish.js';
import { until } from './until.js';

type Entry = readonly [id: Buffer, fields: readonly Buffer[]];
/** Fields that are no headers of the caller's. */
const [ID, KEY, PAYLOAD] = ['id', 'key', 'payload'];

/** An independent client: its streams are its own, and go with it. */
export class RedisObserver {
  readonly prefix = `outbox-test-${randomBytes(6).toString('hex')}`;
  readonly client: Redis;
  private made = 0;

  constructor(url: string) {
    this.client = new Redis(url);
  }

  stream(): string {
    return `${this.prefix}-${(this.made += 1)}`;
  }

  async entries(stream: string): Promise<readonly Entry[]> {
    return (await this.client.callBuffer('XRANGE', stream, '-', '+')) as Entry[];
  }

  async received(stream: string, count: number): Promise<ReceivedMessage[]> {
    await until(async () => (await this.client.xlen(stream)) >= count);
    return (await this.entries(stream)).map(([, fields]) => messageOf(fields));
  }

  async ids(stream: string): Promise<string[]> {
    return (await this.received(stream, 0)).map(({ id }) => id);
  }

  async close(): Promise<void> {
    const all = await this.client.keys(`${this.prefix}*`);
    if (all.length > 0) await this.client.del(all);
    await this.client.quit();
  }
}

function messageOf(fields: readonly Buffer[]): ReceivedMessage {
  const headers: Record<string, HeaderValue> = {};
  let [key, payload]: (Buffer | null)[] = [null, null];
  for (let n = 0; n < fields.length; n += 2) {
    const [name, value] = [fields[n]!.toString(), fields[n + 1]!];
    if (name === KEY) key = value;
    else if (name === PAYLOAD) payload = value;
    else headers[name] = name in headers ? ([...[headers[name]!].flat(), value] as Buffer[]) : value;
  }
  return { id: String(headers[ID!]), key: key === null ? null : String(key), payload: payload ?? null, headers };
}
