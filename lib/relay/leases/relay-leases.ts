import { BucketLeases } from './bucket-leases.js';
import type { LeaseHooks } from './lease-listener.js';
import { instanceInfo } from '../../store/instance-info.js';
import { transportRelayOptions, timeOfOne } from '../transport-parts.js';
import type { RelayDependencies } from '../contracts.js';

/** The leases of one start of a relay. */
export function leasesOf(
  { store, clock, ...deps }: Pick<RelayDependencies, 'store' | 'clock' | 'options'>,
  owner: string,
  hooks: Partial<LeaseHooks>,
): BucketLeases {
  const options = transportRelayOptions(deps.options);
  const settings = {
    lease: options.lease,
    buckets: options.ordering === 'global' ? 1 : options.buckets,
    leader: options.coordination === 'leader',
    every: options.pollInterval * 2,
    need: timeOfOne(options),
  };
  return new BucketLeases(store.leases, clock, owner, instanceInfo(options.lease), settings, hooks);
}
