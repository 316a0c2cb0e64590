import { createHash } from 'node:crypto';
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createHarness } from '../support/relay.js';
import { describeWith, type DatabaseKind } from '../support/services.js';
import { until } from '../support/until.js';
import { end, NO_WRITERS, type FleetSettings } from './fleet.js';
import type { PayloadReport } from './payload-process.js';

const MIB = 2 ** 20;
/** Megabytes of JavaScript objects that the process may have; all payloads together are several times as much. */
const HEAP = 160;

/** Text, which PostgreSQL hands over as a string: what counts for the heap. */
const payloadOf = (n: number, megabytes: number): Buffer => Buffer.alloc(megabytes * MIB, `${n} `);
const digestOf = (payload: Buffer): string => createHash('sha1').update(payload).digest('hex');

describeWith('postgres', 'payloads of 8 MiB', () => testLargePayloads('postgres', 8, 100));
// A statement holds a payload twice in the worst case, and the server takes 16 MiB unless told otherwise.
describeWith('mariadb', 'payloads of 4 MiB', () => testLargePayloads('mariadb', 4, 100));

function testLargePayloads(kind: DatabaseKind, megabytes: number, most: number): void {
  it.each(['buckets', 'rowLock'] as const)(
    'D3: a backlog of them is published whole, in order, in little memory (%s)',
    async (coordination) => {
      const relayOptions = {
        buckets: 4,
        coordination,
        ...(coordination === 'rowLock' ? { ordering: 'none' as const } : {}),
      };
      const count = coordination === 'buckets' ? most : most / 5;
      const harness = await createHarness(kind, relayOptions);
      const reports: PayloadReport[] = [];
      let relay: ChildProcess | undefined;
      try {
        const small = { key: 'small', payload: Buffer.from('{}') };
        for (let n = 0; n < count; n += 1)
          await harness.enqueue([{ key: `k${n % 5}`, payload: payloadOf(n, megabytes) }, small]);
        const settings: FleetSettings = {
          ...NO_WRITERS,
          url: harness.database.url,
          ledger: '',
          lease: 30_000,
          relayOptions,
        };
        relay = startRelay(settings);
        relay.on('message', (report: PayloadReport) => reports.push(report));
        let failure: string | undefined;
        relay.once('exit', (code, signal) => (failure = `The process ended: ${code ?? signal}`));
        await until(() => reports.length >= 2 * count || failure !== undefined, 100_000);
        expect(failure).toBeUndefined();
        const large = reports.filter(({ key }) => key !== 'small');
        expect(reports).toHaveLength(2 * count);
        for (let key = 0; key < 5; key += 1) {
          const expected = Array.from({ length: count / 5 }, (_, i) => digestOf(payloadOf(5 * i + key, megabytes)));
          const got = large.filter((report) => report.key === `k${key}`).map(({ digest }) => digest);
          expect(coordination === 'buckets' ? got : got.sort()).toEqual(
            coordination === 'buckets' ? expected : expected.sort(),
          );
        }
        // About 130 without any message; four payloads on their way, each as text and as bytes, and what is not collected yet.
        expect(Math.max(...reports.map((report) => report.megabytes))).toBeLessThan(320);
      } finally {
        if (relay !== undefined) await end(relay, 'SIGKILL');
        await harness.close();
      }
    },
    180_000,
  );
}

function startRelay(settings: FleetSettings): ChildProcess {
  const root = process.cwd();
  return fork(join(root, 'test', 'processes', 'payload-process.ts'), [], {
    cwd: root,
    execArgv: [`--max-old-space-size=${HEAP}`, '--import', join(root, 'tools', 'typescript.mjs')],
    env: { ...process.env, FLEET: JSON.stringify(settings) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}
