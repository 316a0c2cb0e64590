import type { OutboxTransport, PublishResult } from '../../lib/index.js';

/** What one `publish` of a transport was given, and what became of each message. */
export interface WatchedBatch {
  readonly ids: readonly string[];
  readonly results: (PublishResult | undefined)[];
}

/** Every batch that this transport is given from now on. */
export function watch(transport: OutboxTransport): WatchedBatch[] {
  const batches: WatchedBatch[] = [];
  const publish = transport.publish.bind(transport);
  transport.publish = async (batch, context) => {
    const results: WatchedBatch['results'] = batch.map(() => undefined);
    batches.push({ ids: batch.map(({ id }) => id), results });
    const report: typeof context.report = (index, result) => {
      results[index] ??= result;
      context.report(index, result);
    };
    const told = await publish(batch, { ...context, report });
    told?.forEach((result, index) => (results[index] ??= result));
    return told;
  };
  return batches;
}
