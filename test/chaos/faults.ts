import { setTimeout as pause } from 'node:timers/promises';
import type { TcpProxy } from '../support/tcp-proxy.js';
import { exchangeMissing, topicMissing } from './absences.js';
import { between, nothing, pick, type Fault, type Maker, type Random } from './fault.js';
import { end, order } from './child.js';
import type { Fleet, RelaySlot } from './fleet.js';
import { RELAY } from './settings.js';
import { insertHeld, leaseAhead, numbersBack, snapshotHeld, tableEmptied } from './tampering.js';

/** Most network faults are short; some outlast a lease. */
const whileOut = (random: Random): number =>
  random() < 0.12 ? between(random, RELAY.lease, RELAY.lease * 1.5) : between(random, 300, 3_500);

// ── relays and writers ──────────────────────────────────────────────────────────────────────────────────────────────

function onRelay(
  make: (slot: RelaySlot, fleet: Fleet, random: Random) => Pick<Fault, 'inject' | 'lasts' | 'heal' | 'settled'>,
): Maker {
  return (fleet, random) => {
    const slot = pick(random, fleet.relays);
    return { locks: [slot.user], runs: [slot.run], ...make(slot, fleet, random) };
  };
}

const kill = onRelay((slot, fleet, random) => ({
  inject: () => {
    slot.wanted = false;
    return end(slot.child, 'SIGKILL');
  },
  lasts: between(random, 100, 2_000),
  heal: nothing,
  settled: () => fleet.startRelay(slot),
}));

const terminate = onRelay((slot, fleet, random) => ({
  inject: () => {
    slot.wanted = false;
    return end(slot.child, 'SIGTERM');
  },
  lasts: between(random, 0, 1_000),
  heal: nothing,
  settled: () => fleet.startRelay(slot),
}));

/** Two leases long, so that it wakes up as a zombie; or short, so that it does not. */
const freeze = onRelay((slot, _fleet, random) => ({
  inject: () => void slot.child?.kill('SIGSTOP'),
  lasts: random() < 0.35 ? RELAY.lease * 2 : between(random, 500, 3_000),
  heal: () => void slot.child?.kill('SIGCONT'),
}));

const block = onRelay((slot, _fleet, random) => {
  const ms = random() < 0.2 ? RELAY.lease + 2_000 : between(random, 300, 2_500);
  return { inject: () => order(slot.child, { kind: 'block', ms }), lasts: ms, heal: nothing };
});

const HOUR = 3_600_000;
const shiftClock = onRelay((slot, _fleet, random) => ({
  inject: () => order(slot.child, { kind: 'clock', shift: pick(random, [-HOUR, -90_000, 90_000, HOUR]) }),
  lasts: between(random, 1_000, 6_000),
  heal: () => order(slot.child, { kind: 'clock', shift: 0 }),
}));

const killWriter: Maker = (fleet, random) => {
  const slot = pick(random, fleet.writers);
  return {
    locks: [`writer${slot.index}`],
    runs: [],
    inject: () => {
      slot.wanted = false;
      return end(slot.child, 'SIGKILL');
    },
    lasts: between(random, 0, 500),
    heal: nothing,
    settled: () => fleet.startWriter(slot),
  };
};

// ── network ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type Side = 'database' | 'broker';

function wires(slot: RelaySlot, side: Side): TcpProxy[] {
  return side === 'database' && slot.direct !== undefined ? [slot.database, slot.direct] : [slot[side]];
}

/** Between one relay, or all of them, and one server. */
function onWire(
  side: Side,
  inject: (proxy: TcpProxy, random: Random) => Promise<void> | void,
  momentary = false,
): Maker {
  return (fleet, random) => {
    const slots = random() < 0.82 ? [pick(random, fleet.relays)] : fleet.relays;
    return {
      locks: slots.map(({ user }) => `${user}/${side}`),
      runs: slots.map(({ run }) => run),
      inject: async () => {
        for (const proxy of slots.flatMap((slot) => wires(slot, side))) await inject(proxy, random);
      },
      lasts: momentary ? between(random, 0, 300) : whileOut(random),
      heal: async () => {
        for (const proxy of slots.flatMap((slot) => wires(slot, side))) {
          proxy.heal();
          await proxy.accept();
        }
      },
    };
  };
}

const dropUp = (proxy: TcpProxy): void => proxy.set({ up: 'drop' });
const dropDown = (proxy: TcpProxy): void => proxy.set({ down: 'drop' });
const reset = (proxy: TcpProxy): void => proxy.cut('rst');
const delay = (proxy: TcpProxy, random: Random): void => proxy.set({ delay: between(random, 20, 800) });
const refuse = async (proxy: TcpProxy): Promise<void> => {
  await proxy.refuse();
  proxy.cut(); // who is connected stays connected otherwise
};

// ── servers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const terminateBackends: Maker = (fleet, random) => {
  const slots = random() < 0.7 ? [pick(random, fleet.relays)] : fleet.relays;
  return {
    locks: ['database'],
    runs: slots.map(({ run }) => run),
    inject: async () => {
      for (const { user } of slots) await fleet.database.terminate(user);
    },
    lasts: between(random, 0, 300),
    heal: nothing,
  };
};

const onServer =
  (lock: Side, make: (fleet: Fleet, random: Random) => Pick<Fault, 'inject' | 'lasts' | 'heal'>): Maker =>
  (fleet, random) => ({ locks: [lock], runs: 'all', ...make(fleet, random) });

const killDatabase = onServer('database', ({ database }, random) => ({
  inject: () => database.kill(),
  lasts: between(random, 0, 1_500),
  heal: () => database.start(),
}));
const killPooler = onServer('database', ({ pooler }, random) => ({
  inject: () => pooler?.kill(),
  lasts: between(random, 0, 1_500),
  heal: () => pooler?.start(),
}));
/** What the replica did not get is lost, with its transaction: `lossy` says between which times. Writers live on, as they know what they committed. */
const failOver: Maker = (fleet, random) => ({
  locks: ['database', ...fleet.writers.map(({ index }) => `writer${index}`)],
  runs: 'all',
  inject: () => loseTheLast(fleet, between(random, 0, 2_000)),
  lasts: 0,
  heal: nothing,
  settled: async () => fleet.database.failover?.follow(),
});
async function loseTheLast({ database: { failover }, history }: Fleet, ms: number): Promise<void> {
  const from = history.now();
  await failover?.catchUp();
  failover?.part();
  await pause(ms);
  await failover?.failOver();
  history.add(['lossy', from, history.now()]);
}

const readOnly = onServer('database', ({ database }, random) => ({
  inject: () => database.readOnly(true),
  lasts: between(random, 300, 3_000),
  heal: () => database.readOnly(false),
}));
const killBroker = onServer('broker', ({ broker }, random) => ({
  inject: () => broker.kill(),
  lasts: between(random, 0, 500),
  heal: () => broker.start(),
}));
const stallBroker = onServer('broker', ({ broker }, random) => ({
  inject: () => broker.stall(true),
  lasts: between(random, 500, 4_000),
  heal: () => broker.stall(false),
}));
const closeConnections = onServer('broker', ({ broker }) => ({
  inject: () => broker.closeConnections?.(),
  lasts: 0,
  heal: nothing,
}));

/** Nobody reaches the broker, for longer than anything else lasts. */
export function brokerOutage(fleet: Fleet, ms: number): Fault {
  const { inject, heal, locks, runs } = onWire('broker', refuse)(fleet, () => 0.99);
  return { kind: 'broker-outage', locks, runs, inject, lasts: ms, heal };
}

/** How often each is chosen, by each other. What is dear in CPU (a broker's start, its command line) is rare. */
const KINDS: readonly (readonly [string, number, Maker])[] = [
  ['relay-kill', 9, kill],
  ['relay-freeze', 5, freeze],
  ['relay-terminate', 6, terminate],
  ['relay-block', 5, block],
  ['relay-clock', 9, shiftClock],
  ['writer-kill', 7, killWriter],
  ['database-drop-up', 2, onWire('database', dropUp)],
  ['database-drop-down', 2, onWire('database', dropDown)],
  ['database-reset', 9, onWire('database', reset, true)],
  ['database-refuse', 3, onWire('database', refuse)],
  ['database-delay', 4, onWire('database', delay)],
  ['database-terminate', 9, terminateBackends],
  ['database-kill', 2, killDatabase],
  ['database-pooler-kill', 2, killPooler],
  ['database-failover', 5, failOver],
  ['database-read-only', 3, readOnly],
  ['broker-drop-up', 2.5, onWire('broker', dropUp)],
  ['broker-drop-down', 2.5, onWire('broker', dropDown)],
  ['broker-reset', 9, onWire('broker', reset, true)],
  ['broker-refuse', 3, onWire('broker', refuse)],
  ['broker-delay', 4, onWire('broker', delay)],
  ['broker-kill', 1.2, killBroker],
  ['broker-stall', 1.2, stallBroker],
  ['broker-close', 1.2, closeConnections],
  ['topic-missing', 4, topicMissing],
  ['exchange-missing', 2, exchangeMissing],
  ['numbers-back', 3, numbersBack],
  ['snapshot-held', 2, snapshotHeld],
  ['table-emptied', 2, tableEmptied],
  ['insert-held', 3, insertHeld],
  ['lease-ahead', 3, leaseAhead],
];

/** What not every server does. */
const IMPOSSIBLE: Readonly<Record<string, (fleet: Fleet) => boolean>> = {
  'broker-close': ({ broker }) => broker.closeConnections === undefined,
  'exchange-missing': ({ broker }) => broker.dropExchange === undefined,
  'database-pooler-kill': ({ pooler }) => pooler === undefined,
  'database-failover': ({ database }) => database.failover === undefined,
  // What stands below a position that went back may wait for the look at everything.
  'numbers-back': ({ database, settings }) => settings.noScan || database.numbersBack === undefined,
  'table-emptied': ({ settings }) => settings.noScan,
};

export function makeFault(fleet: Fleet, random: Random, only: readonly string[] | undefined): Fault {
  const kinds = KINDS.filter(
    ([kind]) => (only === undefined || only.includes(kind)) && IMPOSSIBLE[kind]?.(fleet) !== true,
  );
  let point = random() * kinds.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [kind, weight, make] of kinds) {
    point -= weight;
    if (point < 0) return { kind, ...make(fleet, random) };
  }
  throw new Error(`No kind of fault is called so: ${only?.join()}`);
}

export const FAULT_KINDS: readonly string[] = KINDS.map(([kind]) => kind);
