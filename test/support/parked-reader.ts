import type { OutboxMessage } from '../../lib/index.js';
import { Ledger } from '../../lib/relay/ledger.js';
import type { TransportRelayDependencies } from '../../lib/relay/transport-parts.js';
import { ParkedReader } from '../../lib/relay/order/parked-reader.js';
import type { Lease } from '../../lib/store/lease-store.js';
import type { DueRow, KeyInBucket } from '../../lib/store/parked-store.js';
import { FakeClock } from '../../lib/testing/index.js';
import { stored } from './transport-relay.js';

const POLL = 1_000;

/** A reader over a store that answers at once; what it takes is published and settled at once, too. */
export function createReader(limit?: number) {
  const epochs = new Map([[0, '1']]);
  const clock = new FakeClock();
  const asked: KeyInBucket[][] = [];
  const due: DueRow[] = [];
  const closed = new Set<number>();
  const uncertain: number[] = [];
  const blocking: (KeyInBucket & { ready: boolean })[] = [];
  const settled = (row: DueRow): OutboxMessage => stored({ key: row.key, parkedId: row.parkedId, bucket: row.bucket });
  const store = {
    due: async (_: number, __: readonly number[], limit: number) => ({ rows: due.slice(0, limit), nextIn: null }),
    take: async (request: {
      due: readonly DueRow[];
      keys: readonly KeyInBucket[];
      leases: readonly { bucket: number }[];
    }) => {
      due.splice(0, request.due.length);
      asked.push([...request.keys]);
      const isHeld = ({ bucket }: KeyInBucket): boolean => request.leases.some((lease) => lease.bucket === bucket);
      const isFree = (at: KeyInBucket): boolean => isHeld(at) && !blocking.some(({ key }) => key === at.key);
      return { durable: true, messages: request.due.map(settled), clear: request.keys.filter(isFree) };
    },
    blockingKeys: async (_: number, buckets: readonly number[], limit: number) =>
      blocking.filter(({ bucket }) => buckets.includes(bucket)).slice(0, limit),
    blockedAmong: async (_: number, among: readonly KeyInBucket[]) =>
      among.filter(({ key }) => blocking.some((at) => at.key === key)),
  };
  const relay = {
    id: 0,
    clock,
    store: { ready: {}, parked: store },
    options: { ordering: 'key', pollInterval: POLL },
    leases: {
      owner: 'o',
      of: () => epochs,
      changeEpoch: (_: number, buckets: readonly number[]) => void uncertain.push(...buckets),
      lease: (_: number, bucket: number) => (epochs.has(bucket) ? { bucket, epoch: epochs.get(bucket) } : undefined),
    },
  } as unknown as TransportRelayDependencies;
  const reader: ParkedReader = new ParkedReader(
    relay,
    new Ledger(({ key }) => key),
    { has: (bucket) => !closed.has(bucket) },
    { isQuarantined: () => false },
    { hold: () => undefined },
    limit,
  );
  const pass = async (buckets = [...epochs.keys()], limit = 500) => {
    const leases = buckets.map((bucket) => ({ transport: 0, bucket, epoch: epochs.get(bucket) as string }));
    const messages = await takeOnce(reader, buckets, leases, limit);
    for (const { bucket, key } of messages) reader.continueKey(bucket, key as string);
    return { taken: messages.length };
  };
  return { reader, store, clock, epochs, asked, due, blocking, closed, uncertain, pass };
}

/** One pass. @returns what is ours to publish */
async function takeOnce(
  reader: ParkedReader,
  buckets: readonly number[],
  leases: readonly Lease[],
  limit: number,
): Promise<readonly OutboxMessage[]> {
  const taken = await reader.take(buckets, leases, limit);
  if (taken.messages === undefined) return [];
  reader.took(taken);
  return taken.messages;
}
