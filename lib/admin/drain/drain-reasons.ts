import type { InspectStore, StoredRow } from '../../store/inspect-store.js';
import type { ExplainSources, ExplanationReason } from '../explanation-reason.js';
import { reasonsOf } from '../explanation.js';
import { normalizedError } from '../failure-groups.js';
import { countOf, type Left, type Mark } from './drain-look.js';
import { compareSeq } from '../../outbox-message.js';

/** Why messages are left, with the id of one of them. */
export interface DrainReason extends ExplanationReason {
  readonly id: string;
}

/** Messages that are looked at, of those that are ready and of those that are parked. */
const EXAMPLES = 20;
const MAX_REASONS = 10;

/** Each cause once, among some of the messages. What has moved on meanwhile has none. */
export async function drainReasons(
  inspect: Pick<InspectStore, 'find' | 'surroundings'>,
  left: Left,
  mark: Mark,
  sources: ExplainSources,
): Promise<DrainReason[]> {
  if (countOf(left) === 0) return [];
  const reasons = new Map<string, DrainReason>();
  for (const row of [...(await someReady(inspect, left, mark)), ...left.parked.slice(0, EXAMPLES)]) {
    const [first] = reasonsOf(row, await inspect.surroundings(row), sources);
    if (first === undefined) continue;
    const cause = first.code === 'blocked' ? String(first.facts['behind']) : normalizedError(row.lastError ?? '');
    const name = JSON.stringify([first.code, first.transport, cause]);
    if (!reasons.has(name)) reasons.set(name, { ...first, id: row.id });
    if (reasons.size === MAX_REASONS) break;
  }
  return [...reasons.values()];
}

async function someReady(
  inspect: Pick<InspectStore, 'find'>,
  { ready }: Left,
  { highest }: Mark,
): Promise<StoredRow[]> {
  const found: StoredRow[] = [];
  for (const transport of new Set(ready.map((rest) => rest.transport))) {
    const { rows } = await inspect.find({ state: 'ready', transport, after: null, limit: EXAMPLES });
    found.push(...rows.filter(({ seq }) => compareSeq(seq, highest ?? '0') <= 0));
  }
  return found;
}
