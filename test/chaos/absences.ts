import { setTimeout as pause } from 'node:timers/promises';
import { between, pick, type Maker } from './fault.js';
import type { Fleet } from './fleet.js';
import { traitsOf, TRANSPORTS } from './settings.js';

/**
 * One topic of a transport is gone for a while: its messages wait, without an attempt, and their keys behind them. The others
 * go on, and it is the checker who says whether they do.
 */
export const topicMissing: Maker = (fleet, random) => {
  const transport = pick(random, TRANSPORTS);
  const index = TRANSPORTS.indexOf(transport);
  // Where relays have to be held back.
  const { isReadOut } = traitsOf(fleet.settings.broker);
  const wires = isReadOut ? fleet.relays.map(({ user }) => `${user}/broker`) : [];
  return {
    locks: ['broker', ...wires],
    runs: 'all',
    inject: () => fleet.broker.withdraw(transport, (remove) => whenReadOut(fleet, index, remove)),
    lasts: between(random, 3_000, 12_000),
    heal: async () => {
      await fleet.broker.putBack(transport);
      await fleet.join(index);
    },
  };
};

/** What relays send meanwhile is held back: it reaches a broker without the topic. */
async function whenReadOut(fleet: Fleet, transport: number, remove: () => Promise<void>): Promise<void> {
  const wires = fleet.relays.map(({ broker }) => broker);
  for (const wire of wires) wire.set({ up: 'hold' });
  try {
    await pause(ARRIVED);
    if (await fleet.leave(transport)) await remove();
  } finally {
    for (const wire of wires) wire.set({ up: 'forward' });
  }
}
/** Milliseconds in which a broker has written what had reached it. */
const ARRIVED = 300;

/** All topics of one transport. */
export const exchangeMissing: Maker = (fleet, random) => {
  const transport = pick(random, TRANSPORTS);
  return {
    locks: ['broker'],
    runs: 'all',
    inject: () => fleet.broker.dropExchange?.(transport),
    lasts: between(random, 1_000, 6_000),
    heal: () => fleet.broker.putBack(transport),
  };
};
