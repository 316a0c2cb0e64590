import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { STATEMENT_TIMEOUT } from '../../lib/store/database-errors.js';
import { PARKED_POLLS } from '../../lib/relay/relay-loops.js';
import { mayBePassed, ownFailures, precedes, type Fate, type History } from './history.js';
import { isOfBroker } from './plan-faults.js';
import { topicOf } from './plan-missing.js';
import type { Plan } from './plan.js';
import type { MemoryDatabase } from './store/memory-database.js';
import { A_DEAD_ROW, A_SWEEP } from './store/memory-dead.js';
import { idOf } from './workload.js';

/** Holds a finished history against the promises; knows nothing of how they are kept. */
export function judge(history: History, database: MemoryDatabase, options: ResolvedOptions): void {
  const fates = [...history.fates.values()];
  places(history, database, options, fates);
  sightings(history, fates);
  deaths(history, database, options);
  if (!database.caughtUp) order(history, options);
  repetitions(history, fates);
}

/** Invariants 1 and 7: what is committed is with the broker or in exactly one table; what was published is there no more, once. */
function places(history: History, database: MemoryDatabase, options: ResolvedOptions, fates: readonly Fate[]): void {
  const found = new Map<string, string[]>();
  const add = (id: string, table: string): unknown => found.set(id, [...(found.get(id) ?? []), table]);
  for (const rows of database.ready.values()) for (const { id } of rows.values()) add(id, 'ready');
  for (const { id } of database.parked.values()) add(id, 'parked');
  const archived = new Map<string, number>();
  for (const { id } of database.archive) archived.set(id, (archived.get(id) ?? 0) + 1);
  for (const fate of fates) {
    const tables = found.get(fate.id) ?? [];
    if (tables.length > 1) history.violated(1, `${fate.name} is in ${tables.join(' and ')}`);
    if (fate.writer.state !== 'committed') continue;
    const isGone = fate.removed !== undefined || fate.emptied;
    if (tables.length === 0 && fate.taken.length === 0 && !isGone) history.violated(1, `${fate.name} is lost`);
    const copies = archived.get(fate.id) ?? 0;
    const settled = tables.length === 0 && !isGone;
    if (copies > 1 || (options.onPublished === 'archive' && settled && copies !== 1))
      history.violated(7, `${fate.name} is in the archive ${copies} times`);
  }
}

/** Invariant 2, from the other side: what was rolled back was never seen. */
function sightings(history: History, fates: readonly Fate[]): void {
  for (const { name, taken, writer, lost } of fates) {
    if (taken.length > 0 && writer.state !== 'committed' && !lost)
      history.violated(2, `${name} was published and ${writer.state}`);
  }
}

/** Invariants 13 and 16: only failures of its own kill a message, exactly `maxAttempts` of them, and its hook hears of the last death. */
function deaths(history: History, database: MemoryDatabase, options: ResolvedOptions): void {
  const { maxAttempts } = options.retry;
  for (const { id, state, announced, diedAt } of database.parked.values()) {
    const fate = history.fates.get(id);
    if (state !== 'dead' || fate === undefined) continue;
    if (ownFailures(fate) < (maxAttempts ?? Infinity))
      history.violated(13, `${fate.name} died of ${ownFailures(fate)} failures of its own`);
    if (!announced || !fate.heard.has(Math.trunc(diedAt as number)))
      history.violated(16, `${fate.name} died, and nobody was told`);
  }
}

/** Invariant 3: of two messages of a key, one committed before the other's transaction began (or earlier in the same one) is first published first. */
function order(history: History, { retry }: ResolvedOptions): void {
  const seen = new Map<string, Fate[]>();
  const known = new Set<Fate>();
  for (const fate of history.sightings) {
    if (fate.gate === null || known.has(fate) || fate.scheduled || history.touched.has(fate.key ?? '')) continue;
    // An operator took it out, or its row is gone: a buffer, or the way to the broker, may still hold it.
    if (fate.removed !== undefined || fate.emptied || fate.lost) continue;
    known.add(fate);
    const earlier = seen.get(fate.gate);
    if (earlier === undefined) {
      seen.set(fate.gate, [fate]);
      continue;
    }
    const mayBeLate = retry.onDead === 'skip' && fate.deaths > 0; // dead, passed by the others, and requeued
    for (const other of mayBeLate ? [] : earlier) {
      if (precedes(fate, other) && !mayBePassed(history, fate, other))
        history.violated(3, `${other.name} was published before ${fate.name}`);
    }
    earlier.push(fate);
  }
}

/** Invariant 12: what is published twice was touched by a fault between the start of its first publish and the second sighting. */
function repetitions(history: History, fates: readonly Fate[]): void {
  for (const { name, taken, attempted = 0, under, doubtful } of fates) {
    const second = taken[1];
    if (second === undefined || doubtful) continue;
    const by: string[] = [];
    for (let each = under; each !== undefined; each = each.before) by.push(each.by);
    if (!history.isExcused(by, attempted, second)) history.violated(12, `${name} was published twice without a fault`);
  }
}

/** Invariant 15, in calm: where nothing goes wrong, two polls are enough, but for the take-over from whoever is killed. */
export function prompt(history: History, plan: Plan, options: ResolvedOptions): void {
  const stood = reads(history, plan);
  if (stood !== undefined) history.violated(15, stood);
  const { pollInterval, lease } = options;
  const { relays, rates, acts } = plan;
  const fates = undisturbed(history, plan);
  if (acts.length > 0 || rates.slow > 0 || rates.laggards > 0) return;
  if (fates.some(({ refused }) => refused > 0)) return;
  // By then each has its buckets: of a new process the others hear with their next beat, and it of what they give back.
  const sharing = relays.length > 1 ? lease / 3 + 2_000 : 1_000;
  const shared = Math.max(...relays.map(({ at }) => at)) + 4 * pollInterval + sharing;
  const takeOvers = history.seen
    .filter(({ kind }) => kind === 'kill')
    .map(({ from, until }) => ({ from, until: Math.max(from + lease + 2_000, until + sharing) + 4 * pollInterval }));
  for (const { name, committed, scheduled, taken, gate } of fates) {
    const [published] = taken;
    if (committed === undefined || scheduled || published === undefined) continue;
    const since = Math.max(committed, shared);
    const without = takeOvers.reduce((sum, { from, until }) => {
      return sum + Math.max(0, Math.min(until, published) - Math.max(from, since));
    }, 0);
    const waited = published - since - without;
    // It may fall due behind a look at what is parked, and those behind it wait with it for the next one.
    const behindDue = hasDueBefore(history, gate, since) ? PARKED_POLLS * pollInterval : 0;
    const lateness = Math.max(overDead(history, plan, published), behindDue);
    if (waited > 2 * pollInterval + 300 + lateness)
      history.violated(15, `${name} waited ${waited.toFixed(0)} ms, and nothing was wrong`);
  }
}

/**
 * Milliseconds that a message may be late for rows that are gone: a slice, and a sweep behind a writer. Where the first slice is made
 * too wide: a rest of 5 s after slices of seconds, a slice that is cancelled, and a walk over all in the smallest ones, 24 s. Where
 * nothing is known of open transactions: sweeps of a whole minute.
 * A sweep under way passed its place before its commit, and the next one walks over all that is gone by then; its bucket may be
 * the last one that is walked.
 */
function overDead({ faults, fates }: History, { held, floor }: Plan, published: number): number {
  if (!faults.has('snapshot held') || held === undefined) return 0;
  const least = held.firstSlice !== undefined || floor !== 'snapshot' ? 4 * STATEMENT_TIMEOUT : 6_000;
  return Math.max(least, 2 * sweepOfAll({ fates }, held, published));
}

/** Milliseconds of a sweep over all that was gone by then. */
function sweepOfAll({ fates }: Pick<History, 'fates'>, { each }: NonNullable<Plan['held']>, by: number): number {
  const gone = [...fates.values()].filter(({ taken: [at = Infinity] }) => at < by).length;
  return ofRows(gone, each);
}

const ofRows = (messages: number, each: number): number => messages * each * A_DEAD_ROW * A_SWEEP;

/**
 * Invariant 15, of all together: however much sweeps have to look at, reading goes on. One statement may take long: here many rows
 * that are gone have one number, and slices are cut by numbers. A sweep behind a long transaction goes over all of them, once.
 */
function reads({ longestSweep, fates }: History, { held, floor }: Plan): string | undefined {
  if (floor !== 'snapshot' || held === undefined || held.firstSlice !== undefined) return undefined;
  if (longestSweep <= Math.max(A_STOP, ofRows(fates.size, held.each))) return undefined;
  return `nothing was read for ${longestSweep.toFixed(0)} ms, as sweeps went on`;
}

/** Milliseconds. */
const A_STOP = 5_000;

/** Whether a scheduled message of what must keep its order was not through by then. */
const hasDueBefore = ({ fates }: History, gate: string | null, since: number): boolean =>
  gate !== null &&
  [...fates.values()].some((other) => other.scheduled && other.gate === gate && (other.taken[0] ?? Infinity) > since);

/** Each key has one destination, where nothing else goes wrong. */
function isForMissing({ id }: Fate, faults: Plan['faults']): boolean {
  return faults.some(({ topic }) => topic === topicOf(Number(id.split('-').at(-1))));
}

/**
 * For whom nothing goes wrong: everybody, or the messages of the second transport while the first one's broker is away. One relay
 * may be killed, but not one after the other by a message.
 */
function undisturbed(history: History, { faults, writers, destinations, lethal }: Plan): readonly Fate[] {
  const fates = [...history.fates.values()];
  const wrong = [...history.faults.keys()].filter((kind) => kind !== 'snapshot held');
  if (destinations === 'by key' && wrong.every((kind) => kind === 'destination missing'))
    return fates.filter((fate) => !isForMissing(fate, faults));
  const kinds = wrong.filter((kind) => kind !== 'kill' || lethal !== null);
  if (kinds.length === 0) return fates;
  const isFirsts = kinds.every(isOfBroker) && faults.every(({ transport }) => !transport);
  const others = isFirsts ? writers.filter(({ transport }) => transport) : [];
  const messages = others.flatMap(({ transactions }) => transactions).flatMap((transaction) => transaction.messages);
  const ids = new Set(messages.map(({ n }) => idOf(n)));
  return fates.filter(({ id }) => ids.has(id));
}
