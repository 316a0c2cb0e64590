import { BucketLeases } from './bucket-leases.js';
import { instanceInfo } from '../../store/instance-info.js';
import { transportRelayOptions, timeOfOne } from '../relay.types.js';
import type { RelayDependencies } from '../relay.js';

/** The leases of one start of a relay. */
export function leasesOf(deps: RelayDependencies, owner: string): BucketLeases {
  const { store, clock, hooks } = deps;
  const options = transportRelayOptions(deps.options);
  const settings = {
    lease: options.lease,
    buckets: options.ordering === 'global' ? 1 : options.buckets,
    leader: options.coordination === 'leader',
    every: options.pollInterval * 2,
    need: timeOfOne(options),
  };
  const leases = new BucketLeases(store.leases, clock, owner, instanceInfo(options.lease), settings);
  leases.abandoned.news = hooks;
  return leases;
}
