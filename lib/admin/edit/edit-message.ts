import { OutboxError } from '../../outbox.errors.js';
import { refuse } from '../../options/refuse.js';
import type { ParkedState } from '../../outbox-message.js';
import { revisionOf, type EditableContent, type EditableRow } from '../../store/edit.js';
import type { InspectStore, StoredRow } from '../../store/inspect-store.js';
import type { ActReport, OperatorStore, Refusal } from '../../store/operator-store.js';
import { nameOf } from '../found-message.js';
import { WHOLE } from '../content-view.js';
import type { CheckedEdit, MessageChanges } from './edit-changes.js';
import { differences, type EditDifference } from './edit-diff.js';

/** What an edit would do, with `dryRun: true`. */
export interface EditPreview {
  readonly id: string;
  readonly transport: string;
  readonly differences: readonly EditDifference[];
  /** For `expect`: then the edit is refused when the message has changed meanwhile. */
  readonly revision: string;
}
/** What an edit did. */
export interface EditReport extends EditPreview {
  /** Its number in `audit()`. */
  readonly auditId: string;
  /** Of the message as it is now. */
  readonly revision: string;
  readonly requeued: boolean;
}

export interface EditSources {
  readonly operators: OperatorStore;
  readonly inspect: InspectStore;
  readonly names: ReadonlyMap<number, string>;
  /** The number of the edit whose old version comes back, for the audit. */
  readonly restores?: string;
  /** What a message is after the changes, checked and encrypted as at an enqueue. @throws OutboxMessageError */
  rewrite(row: EditableRow, transport: string, changes: MessageChanges): Promise<EditableContent>;
}

/** Reads, makes the new version, and writes it where nothing has changed meanwhile: no lock is held while an encryption works. */
export async function editMessage(
  sources: EditSources,
  { id, number }: { readonly id: string; readonly number: number | undefined },
  changes: MessageChanges,
  options: CheckedEdit,
): Promise<EditPreview | EditReport> {
  const place = await placeOf(sources, id, number);
  if (options.requeue && place.state === 'scheduled')
    refuse('edit', 'the message is scheduled, and is sent at its time: requeue must be left out');
  const row = await readable(sources, place);
  const revision = revisionOf(row);
  if (options.expect !== undefined && options.expect !== revision) throw refused(CHANGED);
  const transport = nameOf(place.transport, sources.names);
  const after = await sources.rewrite(row, transport, changes);
  const found = differences(row, after);
  if (found.length === 0)
    refuse('edit', 'the message already is as the changes say', 'INVALID_MESSAGE', 'To try it again, requeue it.');
  const preview = { id, transport, differences: found, revision };
  if (options.dryRun) return preview;
  const { requeue, actor } = options;
  const filter = JSON.stringify({ ids: [id], transport, restores: sources.restores, ...namedIn(found), requeue });
  const changed = Object.fromEntries(
    FIELDS.filter((name) => after[name] !== row[name]).map((name) => [name, after[name]]),
  );
  const outcome = await sources.operators.act(
    { action: 'edit', actor, filter },
    { do: 'edit', row, revision, changes: changed, requeue },
  );
  return { ...preview, ...written(outcome), requeued: requeue };
}

/** Differences that the audit names. */
const NAMED = 20;

function namedIn(found: readonly EditDifference[]): { changed: readonly string[]; moreChanged?: number } {
  const changed = found.slice(0, NAMED).map(({ what }) => what);
  return found.length > NAMED ? { changed, moreChanged: found.length - NAMED } : { changed };
}

const FIELDS = ['topic', 'type', 'contentType', 'headers', 'options', 'payload'] as const;

function written(outcome: ActReport | Refusal): Pick<EditReport, 'auditId' | 'revision'> {
  if ('refused' in outcome) throw refused(outcome.refused === 'sending' ? SENDING : CHANGED);
  return { auditId: outcome.audit, revision: outcome.revision as string };
}

async function placeOf({ inspect, names }: EditSources, id: string, number: number | undefined): Promise<StoredRow> {
  const all = (await inspect.find({ state: 'parked', ids: [id], after: null, limit: MOST_COPIES })).rows;
  const places = all.filter(({ transport }) => number === undefined || transport === number);
  const [first, second] = places;
  const transports = [...new Set(places.map(({ transport }) => transport))].sort((a, b) => a - b);
  if (transports.length > 1) {
    const known = transports.map((transport) => `'${nameOf(transport, names)}'`).join(', ');
    refuse('edit', `the message waits in several transports: ${known}`, 'INVALID_MESSAGE', 'Give transport.');
  }
  if (second !== undefined) refuse('edit', 'several messages of this transport have the id: it names no single one');
  if (first !== undefined) return first;
  throw await notParked(inspect, id, number);
}

/** Rows of one id that are looked at: one for each transport, but for copies that a replay made. */
const MOST_COPIES = 1_000;

/** Why a message cannot be edited, as it does not wait. */
async function notParked(inspect: InspectStore, id: string, number: number | undefined): Promise<OutboxError> {
  const { rows, isComplete } = await inspect.byIds([id]);
  const states = new Set(
    rows.filter(({ transport }) => number === undefined || transport === number).map((row) => row.state),
  );
  if (states.has('ready')) return refused(READY);
  if (states.size > 0 && !states.has('published')) return refused(CHANGED); // it was parked since we looked
  if (states.has('published')) return refused(['it is published', 'Enqueue a corrected one.']);
  return isComplete
    ? refused(['it is not there', 'Look for it with find().'])
    : refused(['it was not found in time; it may be ready, and does not wait', 'Look for it with find() and its key.']);
}

async function readable({ inspect }: EditSources, row: StoredRow): Promise<EditableRow> {
  const content = await inspect.content(row, WHOLE);
  if (content === undefined) throw refused(CHANGED);
  if (!content.fits)
    refuse('edit', 'the row is larger than the outbox takes, and is not read', 'INVALID_MESSAGE', 'Discard it.');
  return { ...row, ...content, state: row.state as ParkedState, payload: content.preview };
}

type Why = readonly [problem: string, hint: string];
const READY: Why = [
  'it is ready, so that a relay may send it at any moment',
  'Wait until it is published or failed; or cancel it, and enqueue a corrected one.',
];
const SENDING: Why = ['it is being sent just now', 'Wait until it is published or failed, and look at it again.'];
const CHANGED: Why = [
  'it has changed since it was looked at: another operator edited it, or a relay tried it',
  'Look at it again with show().',
];

const refused = ([problem, hint]: Why): OutboxError =>
  new OutboxError('EDIT_REFUSED', `edit: the message was not changed: ${problem}.`, { hint });
