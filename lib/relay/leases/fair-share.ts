import type { Instance } from '../../store/lease-store.js';
import type { LeaseListener, LeaseSettings } from './lease-listener.js';

/**
 * How many buckets of a transport should be this owner's: the live instances that take part in it, sorted, split them evenly.
 * @param held how many are
 */
export function fairShare(
  { buckets, leader }: Pick<LeaseSettings, 'buckets' | 'leader'>,
  owner: string,
  instances: readonly Instance[],
  transport: number,
  { participates }: Pick<LeaseListener, 'participates'>,
  held: number,
): number {
  const owners = instances.filter(({ transports }) => transports.includes(transport)).map((each) => each.owner);
  if (!participates) {
    if (!owners.some((each) => each !== owner)) return held;
    return leader ? 0 : 1; // one to probe with, unless it would keep the others from leading
  }
  if (leader) return buckets;
  if (!owners.includes(owner)) owners.push(owner);
  owners.sort();
  return Math.floor(buckets / owners.length) + (owners.indexOf(owner) < buckets % owners.length ? 1 : 0);
}
