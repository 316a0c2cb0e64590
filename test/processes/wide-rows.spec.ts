import { createHarness } from '../support/relay.js';
import { type DatabaseKind, describeOnEach } from '../support/services.js';
import { until } from '../support/until.js';
import { end } from './fleet.js';
import { PayloadRelay } from './payload-relay.js';

/** Megabytes of JavaScript objects that the process may have; the rows take 208. */
const HEAP = 160;
const ROWS = 400;
/** Bytes, nearly the most that the tables and a relay take. */
const HEADERS = 520_000;

/** What a program with the right to insert may write. */
describeOnEach([], 'a backlog of rows with the longest headers,, in front of a relay that starts', (kind) => {
  it('I3: is published by a process that has less memory than it takes', () => published(kind), 600_000);
});

async function published(kind: DatabaseKind): Promise<void> {
  const relayOptions = { buckets: 1 };
  const harness = await createHarness(kind, relayOptions);
  let relay: PayloadRelay | undefined;
  try {
    const headers = JSON.stringify({ note: 'x'.repeat(HEADERS) });
    const keys = Array.from({ length: ROWS }, (_, n) => `k${n}`);
    while (keys.length > 0) await harness.enqueue(keys.splice(0, 20).map((key) => ({ key, headers })));
    const started = (relay = new PayloadRelay(harness.database.url, relayOptions, HEAP));
    await until(() => started.reports.length >= ROWS || started.failure !== undefined, 300_000);
    expect(started.failure).toBeUndefined();
    expect(started.reports.map(({ key }) => key)).toEqual(Array.from({ length: ROWS }, (_, n) => `k${n}`));
  } finally {
    if (relay !== undefined) await end(relay.process, 'SIGKILL');
    await harness.close();
  }
}
