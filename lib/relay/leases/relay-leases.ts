import { BucketLeases } from './bucket-leases.js';
import { hostProcesses, NO_PROCESSES, type Processes } from './host-process.js';
import { instanceInfo } from '../../store/instance-info.js';
import type { Clock } from '../../time/clock.js';
import { Deadline } from '../../time/deadline.js';
import { transportRelayOptions, timeOfOne } from '../relay.types.js';
import type { RelayDependencies } from '../relay.js';

/** The leases of one start of a relay. */
export async function leasesOf(deps: RelayDependencies, owner: string): Promise<BucketLeases> {
  const { store, clock, hooks, processes = await hostInTime(clock) } = deps;
  const options = transportRelayOptions(deps.options);
  const settings = {
    lease: options.lease,
    buckets: options.ordering === 'global' ? 1 : options.buckets,
    leader: options.coordination === 'leader',
    every: options.pollInterval * 2,
    need: timeOfOne(options),
  };
  const info = instanceInfo(options.lease, processes.life);
  const leases = new BucketLeases(store.leases, clock, owner, info, settings, processes);
  leases.abandoned.news = hooks;
  return leases;
}

/** A start does not wait for a machine that does not answer. */
async function hostInTime(clock: Clock): Promise<Processes> {
  const asked = hostProcesses();
  return (await new Deadline(clock, MOST).within(asked)) ? asked : NO_PROCESSES;
}

/** Milliseconds. */
const MOST = 1_000;
