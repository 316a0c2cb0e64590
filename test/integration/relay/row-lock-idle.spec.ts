import { once } from 'node:events';
import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { openStore } from '../../support/open-store.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const BOUND = 1_000;
/** So that only the server ends what stands still. */
const PATIENT = { lease: 1_800_000, publishTimeout: 600_000 };

for (const kind of DATABASES)
  describeWith(kind, `row locks of a relay that stands still, on ${kind}`, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    it('are free after a while; when it goes on it tells an error, and its next pass works', async () => {
      harness = await createHarness(kind, { ordering: 'none', coordination: 'rowLock' });
      const { database, ordering, coordination, buckets, onPublished } = harness.options;
      const settings = { options: database, ordering, coordination, buckets, onPublished, idleWithLocks: BOUND };
      const frozenStore = openStore(harness.dataSource, settings);
      try {
        const [frozen, other] = [new ScriptedTransport(), new ScriptedTransport()];
        let goOn = (_result: PublishResult): void => undefined;
        const standsStill = new Promise<PublishResult>((resolve) => (goOn = resolve));
        frozen.behave = () => standsStill;
        await harness.enqueue([{}, {}, {}]);
        const a = harness.relay({ default: frozen }, PATIENT, { wrapStore: () => frozenStore });
        const locked = once(frozen.signals, 'attempt', { signal: AbortSignal.timeout(60_000) });
        const since = performance.now();
        await a.dispatcher.start();
        await locked;
        const b = harness.relay({ default: other });
        await b.dispatcher.start();
        await other.until(() => other.published.length === 3);
        expect(performance.now() - since).toBeGreaterThan(BOUND / 2); // not before: they were locked
        await until(async () => (await harness.count('ready')) === 0);
        await b.dispatcher.stop();

        goOn(PUBLISHED);
        expect(await a.hooks.until('error')).toMatchObject({ operation: 'fetch' });
        frozen.behave = () => PUBLISHED;
        const [next] = await harness.enqueue([{}]);
        await frozen.until(() => frozen.published.some(({ id }) => id === next));
        await until(async () => (await harness.count('ready')) === 0);
        await a.dispatcher.stop();
      } finally {
        await frozenStore.close();
      }
    });
  });
