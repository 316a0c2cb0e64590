import { counted } from '../observe/plural.js';
import { holds, type ArchiveLayout } from '../store/partitions/partition-store.js';
import { found, isOk, type Evidence, type Finding } from '../transports/diagnosis.js';

/** Pure: whether an archive in partitions is looked after. How it is made is a matter of the schema. */

const RUN = 'npx nestjs-outbox partitions run --period …, or partitions.period in a process that relays';

export function judgePartitions(layout: ArchiveLayout): Finding[] {
  if (layout.kind === 'plain') return [];
  const { partitions, now } = layout;
  const end = coveredUntil(layout);
  const evidence: Evidence = {
    partitions: partitions.length,
    coveredUntil: end === undefined || !Number.isFinite(end) ? null : new Date(end),
  };
  const aside = layout.aside ? [beside(evidence)] : [];
  if (end === undefined) return [missing('No partition of the archive covers now.', evidence), ...aside];
  const [current] = partitions.filter((each) => holds(each, now));
  if (end === current?.to && end !== Infinity)
    return [missing(`There is no partition after the present one, which ends at ${iso(end)}.`, evidence), ...aside];
  const until = end === Infinity ? '' : ` They go until ${iso(end)}.`;
  const text = `The archive has ${counted(partitions.length, 'partition', 'partitions')}.${until}`;
  return [isOk('partitions', text, evidence), ...aside];
}

const iso = (at: number): string => new Date(at).toISOString();

/** From now on without a gap; `undefined`: not even now. */
function coveredUntil({ partitions, now }: ArchiveLayout): number | undefined {
  let end: number | undefined;
  for (let next = partitions.find((each) => holds(each, now)); next !== undefined;) {
    end = next.to;
    next = partitions.find((each) => holds(each, end as number));
  }
  return end;
}

const missing = (text: string, evidence: Evidence): Finding =>
  found(
    'partitions',
    'warning',
    { text, evidence },
    'What is published lands in the catch-all: it has to be moved, and nothing that is old is dropped.',
    RUN,
  );

const beside = (evidence: Evidence): Finding =>
  found(
    'partitions',
    'note',
    { text: 'Messages wait beside the archive for their partition.', evidence },
    'The view and find() do not show them.',
    RUN,
  );
