import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { ScriptedTransport } from '../support/relay.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeOnFewer, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';
import { readLedger, useFleet } from './fleet.js';
import { ShopProcess, type ShopSettings } from './shop.js';

/** Milliseconds, the longest there is: a process that ends sooner did not wait for it. */
const PATIENT = 600_000;
/** Milliseconds. */
const NEVER = 60_000;

describeOnFewer(['rabbitmq'], 'the end of a process', (kind) => {
  const fleet = useFleet(kind);
  let harness: typeof fleet.harness;
  let ledger: string;
  /** A signal, a broker and an event loop: no matter which database there is. */
  const onOne = kind === 'postgres' ? it : (): void => undefined;
  beforeEach(() => void ({ harness, ledger } = fleet));
  const start = async (settings: Partial<ShopSettings> = {}): Promise<ShopProcess> => {
    const { url } = harness.database;
    const shop = await ShopProcess.start({ url, ledger, shutdownTimeout: PATIENT, hooks: true, ...settings });
    fleet.children.push(shop.child);
    return shop;
  };
  const published = ({ pid }: ShopProcess): number => readFileSync(ledger, 'utf8').split(` ${pid}\n`).length - 1;
  const ledgerIds = (): string[] =>
    readFileSync(ledger, 'utf8')
      .split('\n')
      .flatMap((line) => line.split(' ')[2] ?? []);
  /** Buckets by whether anybody holds them. */
  const leased = async (): Promise<{ held: number; owners: number }> => {
    const now = kind === 'postgres' ? 'now()' : 'utc_timestamp(6)';
    const [row] = (await harness.dataSource.query(
      `select count(owner) as held, count(distinct owner) as owners from outbox_leases where expires_at > ${now}`,
    )) as [{ held: string; owners: string }];
    return { held: Number(row.held), owners: Number(row.owners) };
  };
  /** The last statement of a process that ended may be under way still. Nothing else frees them: a lease is an hour. */
  const noneHeld = (): Promise<void> => until(async () => (await leased()).held === 0, NEVER);
  /** About a thousand messages a second until told otherwise; keys have consecutive numbers. */
  function load(): { stop(): Promise<number> } {
    let on = true;
    let written = 0;
    const next = new Map<string, number>();
    const work = (async () => {
      while (on) {
        const batch = Array.from({ length: 50 }, (_, i) => {
          const key = `k${(written + i) % 200}`;
          next.set(key, (next.get(key) ?? 0) + 1);
          return { key, payload: Buffer.from(String(next.get(key))) };
        });
        await harness.enqueue(batch);
        written += batch.length;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return written;
    })();
    return { stop: () => ((on = false), work) };
  }

  // Fifty rounds would take minutes: two of them here, and many more in the soak.
  it('G2: SIGTERM under a thousand messages a second: nothing twice, in order, and the others take over at once', async () => {
    const [stays, ...others] = (await Promise.all([start(), start(), start()])) as [ShopProcess, ...ShopProcess[]];
    await until(async () => (await leased()).owners === 3, NEVER); // the first to come had all of them for a while
    const writing = load();
    for (const goes of others) {
      await until(() => published(goes) > 0, NEVER);
      expect(await goes.end('SIGTERM')).toBe('SIGTERM');
      const stay = others.indexOf(goes) === 0 ? 2 : 1;
      await until(async () => (await leased()).owners === stay, NEVER); // given back, not left to expire
      await until(async () => (await leased()).held === 32, NEVER); // a lease is an hour
    }
    const written = await writing.stop();
    await until(async () => (await harness.count('ready')) === 0, NEVER);
    await stays.end('SIGTERM');
    expect(readLedger(ledger)).toMatchObject({ lines: written, distinct: written, ghosts: 0, outOfOrder: 0 });
    expect(await leased()).toEqual({ held: 0, owners: 0 });
  });

  it('G2, G3: a publish that hangs: the process ends in time, and its message is free at once', async () => {
    const shop = await start({ publish: 'hangs', shutdownTimeout: 1_000 });
    await harness.enqueue([{ key: 'k', payload: Buffer.from('1') }]);
    await shop.heard('handed');
    expect(await shop.end('SIGTERM')).toBe('SIGTERM'); // of the publish it would hear in twenty minutes
    await noneHeld();
    expect(await harness.count('ready')).toBe(1);
  });

  onOne('G3: a second signal ends the waiting', async () => {
    const shop = await start({ publish: 'hangs', shutdownTimeout: PATIENT });
    await harness.enqueue([{ key: 'k' }]);
    await shop.heard('handed');
    shop.child.kill('SIGINT');
    await shop.heard('stopping');
    expect(await shop.end('SIGTERM')).toBe('SIGINT');
    await noneHeld();
  });

  onOne(
    'G3: RabbitMQ falls silent while the process stops: it ends in time, and the next sends what was not confirmed',
    async () => {
      const proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
      const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
      try {
        const queue = await observer.queue();
        const url = requiredUrl('rabbitmq').replace(/(@|\/\/)[\w.-]+:\d+/, `$1127.0.0.1:${proxy.port}`);
        const shop = await start({ rabbit: { url, queue }, shutdownTimeout: 1_500 });
        const ids = await harness.enqueue([{ key: 'a' }]);
        await until(async () => (await harness.count('ready')) === 0, NEVER);
        proxy.set({ up: 'drop', down: 'drop' });
        ids.push(...(await harness.enqueue([{ key: 'a' }, { key: 'b' }])));
        expect(await shop.end('SIGTERM')).toBe('SIGTERM');
        await noneHeld();
        proxy.heal();
        const next = await rabbitmq({ url, routingKey: () => queue }).create();
        await harness.relay({ default: next }).dispatcher.start();
        await until(async () => (await harness.count('ready')) === 0, NEVER);
        const seen = await observer.receivedAll(queue, ids);
        expect(new Set(seen.map(({ id }) => id))).toEqual(new Set(ids));
      } finally {
        await observer.close();
        await proxy.close();
      }
    },
  );

  it('G6: a process whose application was closed ends by itself, and no timer keeps it', async () => {
    const shop = await start({ hooks: false });
    await harness.enqueue([{ key: 'k', payload: Buffer.from('1') }]);
    await until(() => published(shop) === 1, NEVER);
    const ended = once(shop.child, 'exit', { signal: AbortSignal.timeout(2 * NEVER) });
    shop.child.send('close');
    expect(await shop.heard('timers')).toBe(0);
    expect(await ended).toEqual([0, null]);
  });

  // Until all is published by another one, and so for longer than a lease.
  onOne(
    'G2, G7: an event loop that is blocked for longer than its lease publishes nothing after that, no failure is invented; missing shutdown hooks are told',
    async () => {
      const shop = await start({ publish: 'blocks', hooks: false });
      const texts = Array.from({ length: 300 }, (_, i) => ({
        key: `k${i % 3}`,
        payload: Buffer.from(String(Math.floor(i / 3) + 1)),
      }));
      await harness.enqueue(texts);
      const inFlight = await shop.heard('handed');
      const other = new ScriptedTransport();
      await harness.relay({ default: other }).dispatcher.start();
      await other.until(() => other.published.length >= 300 - 40, 2 * NEVER); // its leases ended while it was blocked
      writeFileSync(`${ledger}.go`, '');
      await until(async () => (await harness.count('ready')) === 0, NEVER);
      const warned = (text: string) => shop.news.some(({ warning }) => warning?.includes(text));
      await until(() => warned('frozen or blocked') && warned('call app.enableShutdownHooks()'), NEVER);
      shop.child.send('close');
      await shop.heard('closed'); // nothing of it is on its way any more
      // Its own: what was out when it was blocked, at most four batches; all else is the other's, in order.
      expect(published(shop)).toBeLessThanOrEqual(4 * inFlight);
      const seen = new Set([...other.published.map(({ id }) => id), ...ledgerIds()]);
      expect(seen.size).toBe(300);
      expect(shop.news.filter(({ failed }) => failed !== undefined)).toEqual([]);
      expect(await harness.count('parked')).toBe(0);
    },
  );
});
