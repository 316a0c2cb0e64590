import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BusyClient, HTTP_SERVERS } from '../support/http.js';
import { createHarness, type Harness } from '../support/relay.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { readLedger } from './fleet.js';
import { ShopProcess, type ShopSettings } from './shop.js';

const CONNECTIONS = 8;
/** Milliseconds, the longest there is: a process that ends sooner did not wait for it. */
const PATIENT = 600_000;
/** Milliseconds. */
const NEVER = 60_000;

describeWith('postgres', 'the end of a process that serves HTTP', () => {
  let harness: Harness;
  let directory: string;
  let ledger: string;
  const shops: ShopProcess[] = [];
  beforeEach(async () => {
    harness = await createHarness('postgres');
    directory = mkdtempSync(join(tmpdir(), 'outbox-http-'));
    ledger = join(directory, 'ledger');
    writeFileSync(ledger, '');
  });
  afterEach(async () => {
    await Promise.all(shops.splice(0).map((shop) => shop.end('SIGKILL')));
    await harness?.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const start = async (settings: Pick<ShopSettings, 'http'> = {}): Promise<ShopProcess> => {
    const { url } = harness.database;
    const shop = await ShopProcess.start({ url, ledger, shutdownTimeout: PATIENT, hooks: true, ...settings });
    shops.push(shop);
    return shop;
  };

  it.each(HTTP_SERVERS)(
    'L12: SIGTERM while clients keep their connections to %s busy: it ends, and what it accepted is published once',
    async (http) => {
      const shop = await start({ http });
      const client = new BusyClient(await shop.heard('port'), '/orders', CONNECTIONS);
      await until(() => readLedger(ledger).lines > CONNECTIONS, NEVER);
      expect(await shop.end('SIGTERM')).toBe('SIGTERM');
      await client.stop();
      expect([...client.answers.keys()].filter((status) => ![201, 503].includes(status))).toEqual([]);
      await start();
      await until(async () => (await harness.count('ready')) === 0, NEVER);
      const { lines, distinct } = readLedger(ledger);
      expect(distinct).toBe(lines);
      expect(distinct).toBeGreaterThanOrEqual(client.accepted);
    },
  );
});
