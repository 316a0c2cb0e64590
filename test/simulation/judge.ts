import type { Fate, History } from './history.js';

export interface Verdict {
  readonly violations: readonly string[];
  readonly committed: number;
  readonly duplicates: number;
}
export interface Rules {
  readonly maxAttempts: number;
  readonly onDead: 'block' | 'skip';
  /** What must not overtake: messages with the same one. `null`: nothing. */
  readonly gateOf: (fate: Fate) => string | null;
  /** Keys that an operator let go on past their dead messages. */
  readonly touched: ReadonlySet<string>;
}

/** Holds a finished history against the promises; knows nothing of how they are kept. */
export function judge(history: History, rules: Rules): Verdict {
  const fates = [...history.fates.values()];
  const violations = [
    ...lost(fates, rules),
    ...ghosts(history, fates),
    ...deaths(fates, rules),
    ...disorder(history, rules),
  ];
  const duplicates = fates.reduce((sum, { taken }) => sum + Math.max(0, taken.length - 1), 0);
  if (history.faults.size === 0 && duplicates > 0) violations.push(`${duplicates} duplicates without a fault`);
  return { violations, committed: fates.filter(({ committed }) => committed !== undefined).length, duplicates };
}

/** Invariant 1: what is committed is published, dead, or held behind a dead one of its key. */
function lost(fates: readonly Fate[], { onDead, gateOf }: Rules): string[] {
  const closed = new Set(fates.filter(({ dead }) => dead).map(gateOf));
  const held = (fate: Fate): boolean => onDead === 'block' && gateOf(fate) !== null && closed.has(gateOf(fate));
  return fates
    .filter(
      (fate) => fate.committed !== undefined && fate.taken.length === 0 && !fate.dead && !fate.removed && !held(fate),
    )
    .map(({ name }) => `lost: ${name}`);
}

/** Invariant 2: nothing is published that was not committed by then. */
function ghosts(history: History, fates: readonly Fate[]): string[] {
  return [
    ...history.ghosts.map((id) => `ghost: ${id} was never enqueued`),
    ...fates
      .filter(
        ({ taken, committed, rolledBack }) =>
          taken.length > 0 && (rolledBack || !((taken[0] ?? 0) >= (committed ?? Infinity))),
      )
      .map(({ name }) => `ghost: ${name} was published without its commit`),
  ];
}

/** Only failures of its own kill a message, and exactly `maxAttempts` of them, when nothing made one count be lost. */
function deaths(fates: readonly Fate[], { maxAttempts }: Rules): string[] {
  return fates
    .filter(({ dead, refused, forgiven }) => dead && refused - forgiven < maxAttempts)
    .map(({ name, refused }) => `death: ${name} died after ${refused} of ${maxAttempts} refusals`);
}

/** Invariant 3: of two messages of a key, one committed before the other's transaction began (or earlier in the same one) is first published first. */
function disorder(history: History, rules: Rules): string[] {
  const { onDead, gateOf } = rules;
  const violations: string[] = [];
  const seen = new Map<string, Fate[]>();
  const known = new Set<Fate>();
  for (const fate of history.sightings) {
    const gate = gateOf(fate);
    if (gate === null || known.has(fate) || fate.scheduled || rules.touched.has(fate.key ?? '')) continue;
    known.add(fate);
    const earlier = seen.get(gate) ?? [];
    for (const other of earlier) {
      if (precedes(fate, other) && !(onDead === 'skip' && fate.refused > 0)) {
        violations.push(`order: ${other.name} was published before ${fate.name}`);
      }
    }
    earlier.push(fate);
    seen.set(gate, earlier);
  }
  return violations;
}

function precedes(a: Fate, b: Fate): boolean {
  if (a.transaction === b.transaction) return a.index < b.index;
  return a.committed !== undefined && a.committed < b.began;
}
