import { once } from 'node:events';
import { OutboxAdmin, type BulkReport } from '../../lib/index.js';
import { startApplication } from '../support/app.js';
import { NoopTransport } from '../support/relay.js';
import { bench } from '../support/run.js';

/** What became of the requeue of all dead letters, and how long it took. */
export interface Requeued extends Pick<BulkReport, 'done' | 'skipped'> {
  /** Milliseconds. */
  readonly ms: number;
}

/** An operator in a process of its own, as the command line is one: requeues all dead letters when it is told to. */
bench('operator', async (closing) => {
  const [, , url] = process.argv as [string, string, string];
  const options = { relay: false, transports: { default: new NoopTransport() } } as const;
  const admin = (await startApplication(closing, url, options)).get(OutboxAdmin);
  process.send?.('ready');
  await once(process, 'message');
  const from = performance.now();
  const { done, skipped } = await admin.requeue({ state: 'dead' });
  const requeued: Requeued = { done, skipped, ms: performance.now() - from };
  process.send?.(requeued);
  await once(process, 'disconnect');
  return {};
});
