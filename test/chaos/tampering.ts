import { setTimeout as pause } from 'node:timers/promises';
import { order, end } from './child.js';
import { between, nothing, pick, type Maker } from './fault.js';
import type { Fleet } from './fleet.js';
import { RELAY, TRANSPORTS } from './settings.js';
import { uidAt } from './workload.js';

/** What is done to the tables, by hand or by sessions of others. None of it is an excuse for relays, unless it says so. */

/** Of the order of what was written before with what was written after. */
export const numbersBack: Maker = ({ database }) => ({
  locks: ['database'],
  runs: [],
  inject: () => database.numbersBack?.(),
  lasts: 0,
  heal: nothing,
});

export const snapshotHeld: Maker = ({ database }, random) => ({
  locks: ['snapshot'],
  runs: [],
  // A server that is away has no snapshot, and holds none when it is back.
  inject: () => database.holdSnapshot(true).catch(() => undefined),
  lasts: between(random, 5_000, 20_000),
  heal: () => database.holdSnapshot(false),
});

/** What was in it is taken. Whoever has a row locked, or an open snapshot of it, would hold back all others with this one. */
export const tableEmptied: Maker = (fleet) => ({
  locks: ['database', 'snapshot', 'inserts'],
  runs: [],
  inject: () => emptyReady(fleet),
  lasts: 0,
  heal: nothing,
});
async function emptyReady(fleet: Fleet): Promise<void> {
  if (fleet.backlog > MOST_TAKEN) return;
  const taken: number[][] = TRANSPORTS.map(() => []);
  for (const [transport, head] of await fleet.database.emptyReady())
    taken[Number(transport)]?.push(uidAt(String(head)));
  const now = fleet.history.now();
  taken.forEach((uids, transport) => fleet.history.add(['taken', now, transport, uids]));
  fleet.taken += taken.flat().length;
}

/** Messages. What an outage left behind is to be published: a run that throws it away proves little. */
const MOST_TAKEN = 3_000;

/**
 * Numbers are given out, and the rows come seconds later: longer than a relay allows a number to be on its way, and shorter than
 * a writer waits for a lock. A transaction that is open for as long shows the same where numbers and rows come together.
 */
export const insertHeld: Maker = ({ database, writers }, random) => {
  const [transport, bucket] = [pick(random, [0, 1]), between(random, 0, RELAY.buckets)];
  const ms = between(random, 2_500, 7_000);
  return {
    locks: ['inserts'],
    runs: [],
    inject: async () => {
      for (const { child } of writers) order(child, { kind: 'hold', ms });
      await database.holdInserts?.({ transport, bucket }).catch(() => undefined);
    },
    lasts: ms,
    heal: () => database.holdInserts?.(undefined),
  };
};

/** A relay died, and its leases end tomorrow: the clock of the database was ahead when it renewed them. */
export const leaseAhead: Maker = (fleet, random) => {
  const slot = pick(random, fleet.relays);
  return {
    locks: [slot.user, 'database'],
    runs: [slot.run],
    inject: async () => {
      slot.wanted = false;
      await end(slot.child, 'SIGKILL');
      await pause(ARRIVED);
      if (slot.owner !== undefined) await fleet.database.leaseAhead(slot.owner);
    },
    lasts: between(random, 100, 2_000),
    heal: nothing,
    settled: () => fleet.startRelay(slot),
  };
};
/** Milliseconds until what a relay had sent before it died is done, or never will be. */
const ARRIVED = 200;
