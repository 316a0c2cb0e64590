import { createHash } from 'node:crypto';
import { createHarness } from '../support/relay.js';
import { describeWith, MYSQL_FAMILY, type DatabaseKind } from '../support/services.js';
import { until } from '../support/until.js';
import { end } from './fleet.js';
import { PayloadRelay } from './payload-relay.js';

const MIB = 2 ** 20;
/** Megabytes of JavaScript objects that the process may have; all payloads together are several times as much. */
const HEAP = 160;

/** Text, which PostgreSQL hands over as a string: what counts for the heap. */
const payloadOf = (n: number, megabytes: number): Buffer => Buffer.alloc(megabytes * MIB, `${n} `);
const digestOf = (payload: Buffer): string => createHash('sha1').update(payload).digest('hex');

describeWith('postgres', 'payloads of 8 MiB', () => testLargePayloads('postgres', 8, 50));
// A statement holds a payload twice in the worst case, and the server takes 16 MiB unless told otherwise.
for (const kind of MYSQL_FAMILY)
  describeWith(kind, `payloads of 4 MiB, on ${kind}`, () => testLargePayloads(kind, 4, 100));

function testLargePayloads(kind: DatabaseKind, megabytes: number, most: number): void {
  it.each(['buckets', 'rowLock'] as const)(
    'D3: a backlog of them is published whole, in order, in little memory (%s)',
    async (coordination) => {
      const relayOptions = {
        buckets: 4,
        coordination,
        ...(coordination === 'rowLock' ? { ordering: 'none' as const } : {}),
      };
      const count = coordination === 'buckets' ? most : 20;
      const harness = await createHarness(kind, relayOptions);
      let relay: PayloadRelay | undefined;
      try {
        const small = { key: 'small', payload: Buffer.from('{}') };
        for (let n = 0; n < count; n += 1)
          await harness.enqueue([{ key: `k${n % 5}`, payload: payloadOf(n, megabytes) }, small]);
        const started = (relay = new PayloadRelay(harness.database.url, relayOptions, HEAP));
        const { reports } = started;
        await until(() => reports.length >= 2 * count || started.failure !== undefined, 400_000);
        expect(started.failure).toBeUndefined();
        const large = reports.filter(({ key }) => key !== 'small');
        expect(reports).toHaveLength(2 * count);
        for (let key = 0; key < 5; key += 1) {
          const expected = Array.from({ length: count / 5 }, (_, i) => digestOf(payloadOf(5 * i + key, megabytes)));
          const got = large.filter((report) => report.key === `k${key}`).map(({ digest }) => digest);
          expect(coordination === 'buckets' ? got : got.sort()).toEqual(
            coordination === 'buckets' ? expected : expected.sort(),
          );
        }
        // About 130 without any message; four payloads on their way, each as text and as bytes, and what is not collected yet: more
        // of it where other programs keep the collector waiting. All of them would be beyond 530.
        expect(Math.max(...reports.map((report) => report.megabytes))).toBeLessThan(420);
      } finally {
        if (relay !== undefined) await end(relay.process, 'SIGKILL');
        await harness.close();
      }
    },
    900_000,
  );
}
