import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { type OutboxStore, type PublishResult, PUBLISHED } from '../../lib/index.js';
import { ScriptedTransport, wrapped } from '../support/relay.js';
import { gate } from '../support/transport-relay.js';
import { FEWER_DATABASES, describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { expireLeases, NO_WRITERS, readLedger, startProcess, useFleet, type FleetSettings } from './fleet.js';

const OTHERS = 300;
const MAX_ATTEMPTS = 2;
/** Deaths after which messages of a bucket go one by one. */
const UNSUSPECTED = 3;
/** What is in memory of a relay: so many of them go one by one. */
const BOUNDS = { batchSize: 20, batchesInFlight: 3 };
const SUSPECTS = BOUNDS.batchSize * BOUNDS.batchesInFlight;

const message = (key: string, n: number) => ({ key, payload: Buffer.from(String(n)) });
/** As a payload does that the heap cannot hold. */
const DIES_READING = { dieAt: { method: 'readPayloads', when: 'before', nth: 1 } };

describe.each(FEWER_DATABASES)('a message that kills its process', (kind) => {
  describeWith(kind, kind, () => {
    const fleet = useFleet(kind, { onPublished: 'archive' });
    let harness: typeof fleet.harness;
    let settings: FleetSettings;
    let relay: ChildProcess;

    beforeEach(() => {
      const { ledger } = fleet;
      ({ harness } = fleet);
      const relayOptions = {
        onPublished: 'archive' as const,
        ...BOUNDS,
        retry: { maxAttempts: MAX_ATTEMPTS, initial: 1, max: 1 },
      };
      settings = { url: harness.database.url, ledger, lease: 600_000, ...NO_WRITERS, relayOptions };
    });

    const rows = (
      table: 'parked' | 'archive',
    ): Promise<{ key: string; attempts: number; last_error?: string | null }[]> => {
      const key = kind === 'postgres' ? 'key' : 'convert(`key` using utf8mb4) as `key`';
      const error = table === 'parked' ? ', last_error' : '';
      return harness.dataSource.query(`select ${key}, attempts${error} from outbox_${table}`);
    };
    const isDead = async (): Promise<boolean> =>
      (await harness.dataSource.query('select 1 from outbox_parked where state = 4')).length === 1;

    it.each([
      ['when it is handed over', message('poison', 1), { poison: 'poison' }],
      ['when its large payload is read', { key: 'poison', payload: Buffer.alloc(100_000, 'x') }, DIES_READING],
    ])(
      '%s: is found by itself, charged with each death, and dead after the last; nobody else is charged',
      async (_, poison, dies) => {
        Object.assign(settings, dies);
        const messages = Array.from({ length: OTHERS }, (__, n) => message(`k${n % 20}`, Math.floor(n / 20) + 1));
        await harness.enqueue([...messages.slice(0, 150), poison, ...messages.slice(150)]);
        let deaths = 0;
        for (;;) {
          relay = startProcess('relay-process', settings);
          fleet.children.push(relay);
          const died = once(relay, 'exit', { signal: AbortSignal.timeout(60_000) });
          let isGone = false;
          const isThrough = async (): Promise<boolean> =>
            isGone || ((await rows('archive')).length === OTHERS && (await isDead()));
          const through = until(isThrough, 60_000);
          const isOver = await Promise.race([through.then(() => true), died.then(() => false)]);
          if (isOver) break;
          isGone = true;
          await through;
          deaths += 1;
          expect(deaths).toBeLessThanOrEqual(UNSUSPECTED + MAX_ATTEMPTS);
          await expireLeases(harness.dataSource);
        }
        expect(deaths).toBe(UNSUSPECTED + MAX_ATTEMPTS);
        expect(await rows('parked')).toEqual([
          {
            key: 'poison',
            attempts: MAX_ATTEMPTS,
            last_error: expect.stringMatching(/^The process that published this message, and nothing else, ended/),
          },
        ]);
        expect((await rows('archive')).every(({ attempts }) => attempts === 0)).toBe(true);
        const { lines: _lines, publishers: __, ...ledger } = readLedger(settings.ledger);
        expect(ledger).toEqual({ distinct: OTHERS, ghosts: 0, outOfOrder: 0 });
      },
      600_000,
    );

    it('three processes that something else ended: what one can have held goes one by one, and the rest together', async () => {
      const backlog = Array.from({ length: 10 * SUSPECTS }, (_, n) => message(`k${n % 200}`, Math.floor(n / 200) + 1));
      const ids = await harness.enqueue(backlog);
      const killed: FleetSettings = { ...settings, dieAt: { method: 'publish', when: 'before', nth: 2 } };
      for (let death = 0; death < UNSUSPECTED; death += 1) {
        relay = startProcess('relay-process', killed);
        fleet.children.push(relay);
        await once(relay, 'exit', { signal: AbortSignal.timeout(60_000) });
        await expireLeases(harness.dataSource);
      }
      const noted: string[] = [];
      const wrapStore = (store: OutboxStore): OutboxStore =>
        wrapped(store, {
          noteTrial: (owner, lease, id) => {
            if (id !== null) noted.push(id);
            return store.leases.noteTrial(owner, lease, id);
          },
        });
      const transport = new ScriptedTransport();
      const out = gate<PublishResult>();
      transport.behave = () => out.opened;
      const { dispatcher } = harness.relay({ default: transport }, BOUNDS, { wrapStore });
      const first = once(transport.signals, 'attempt', { signal: AbortSignal.timeout(60_000) });
      await dispatcher.start();
      await first;
      const { status, reasons } = await harness.health(dispatcher);
      expect({ status, reasons }).toEqual({
        status: 'degraded',
        reasons: [{ code: 'trial', text: expect.stringMatching(/ messages go one by one/), transport: 'default' }],
      });
      transport.behave = () => PUBLISHED;
      out.open(PUBLISHED);
      const through = async (): Promise<boolean> => (await rows('archive')).length === backlog.length;
      await until(through, 120_000);
      expect(noted).toHaveLength(SUSPECTS);
      expect(new Set(noted).size).toBe(SUSPECTS);
      expect((await harness.health(dispatcher)).reasons).toEqual([]);
      expect(await rows('parked')).toEqual([]);
      expect(ids).toEqual(expect.arrayContaining(noted));
    }, 300_000);
  });
});
