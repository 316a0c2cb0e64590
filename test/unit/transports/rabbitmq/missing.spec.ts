import { EventEmitter } from 'node:events';
import { lookFor, missingOf } from '../../../../lib/transports/rabbitmq/missing.js';
import { Recovery } from '../../../../lib/transports/amqp/recovery.js';
import { resolveRabbitMqOptions } from '../../../../lib/transports/rabbitmq/option-checks.js';

/** A broker that answers a question about an exchange with this code; 0: not at all. */
function createLink(codes: Readonly<Record<string, number>>, own = true) {
  const opened: Model[] = [];
  class Model extends EventEmitter {
    readonly connection = {};
    closed = false;
    channels = 0;
    createChannel = async () => {
      this.channels += 1;
      const checkExchange = async (name: string): Promise<void> => {
        const code = codes[name];
        if (code === 0) return new Promise(() => undefined);
        if (code !== undefined) throw Object.assign(new Error(`Operation failed; ${code}`), { code });
      };
      return Object.assign(new EventEmitter(), { checkExchange, close: async () => undefined });
    };
    close = async (): Promise<void> => void (this.closed = true);
  }
  const source = async () => {
    const model = new Model();
    opened.push(model);
    return { model: model as never, own: true };
  };
  return { link: { connection: { own } as never, source, recovery: new Recovery() }, opened };
}
const settings = (exchange: string) => resolveRabbitMqOptions({ url: 'amqp://127.0.0.1', exchange });
const to = (...exchanges: string[]) =>
  exchanges.map((exchange) => ({ topic: 'any', options: { rabbitmq: { exchange } } }));

describe('asking RabbitMQ for what is missing', () => {
  it('R6: takes 404 alone for missing: one that may not be asked about is not, nor is what stands behind it', async () => {
    const { link, opened } = createLink({ a: 403, b: 404, c: 405 });
    const found = (await lookFor(link, settings('a'), to('b', 'c', 'd'), AbortSignal.timeout(60_000))).flatMap(
      missingOf,
    );
    expect(found.map(({ destination }) => destination)).toEqual(['exchange "b"']);
    expect(opened).toMatchObject([{ channels: 4, closed: true }]);
  });

  it('R6: knows nothing where the connection breaks, and leaves none open', async () => {
    const { link, opened } = createLink({ a: 404, b: 541 });
    await expect(lookFor(link, settings('a'), to('b'), AbortSignal.timeout(60_000))).rejects.toThrow('541');
    expect(opened).toMatchObject([{ closed: true }]);
  });

  it('R6: gives up when it is told, and destroys its connection', async () => {
    const { link, opened } = createLink({ a: 0 });
    const end = new AbortController();
    const asked = lookFor(link, settings('a'), [], end.signal);
    setImmediate(() => end.abort(new Error('too late')));
    await expect(asked).rejects.toThrow('too late');
    expect(opened).toMatchObject([{ closed: true }]);
  });

  it('R6: believes no broker that was away a moment ago, and opens nothing', async () => {
    const { link, opened } = createLink({ a: 404 });
    link.recovery.lost({ fault: 'transport' });
    link.recovery.connected();
    await expect(lookFor(link, settings('a'), [], AbortSignal.timeout(60_000))).rejects.toThrow('was until');
    expect(opened).toEqual([]);
  });

  it('R6: asks nothing over, or beside, a connection of the application, nor where nothing is known', async () => {
    const given = createLink({ a: 404 }, false);
    expect(await lookFor(given.link, settings('a'), [], AbortSignal.timeout(60_000))).toEqual([]);
    const unknown = createLink({});
    expect(await lookFor(unknown.link, settings(''), [], AbortSignal.timeout(60_000))).toEqual([]);
    expect([...given.opened, ...unknown.opened]).toEqual([]);
  });
});
