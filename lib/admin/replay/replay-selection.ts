import { refuse } from '../../options/refuse.js';
import { typeName } from '../../options/text-checks.js';
import { writtenBetween } from '../../store/seek-time.js';
import { checkedAuditId, checkedFlag, checkedIds, checkedText, checkObject } from '../checks.js';

/** Which archived messages are published again: all given conditions must hold, and `ids` or `publishedFrom` must be given. */
export interface ReplaySelection {
  /** At most 500. Without a window the archive is looked through from the time in them to its end. */
  ids?: readonly string[];
  key?: string;
  type?: string;
  topic?: string;
  transport?: string;
  /** Published then or later, by the database's clock. */
  publishedFrom?: Date;
  /** Published earlier. Default, and at most: the beginning of the replay. */
  publishedUntil?: Date;
  /** Also what an earlier replay published: what is in the window twice comes twice. Default `false`. */
  includeReplays?: boolean;
  /**
   * The `auditId` of a replay that did not come to its end, in place of all other conditions: goes on behind the last message that it
   * inserted. Whoever runs it until now inserts nothing more.
   */
  resume?: string;
}

/** A selection that was checked, without its window. */
export interface ReplayConditions {
  readonly ids?: readonly string[];
  readonly key?: string;
  readonly type?: string;
  readonly topic?: string;
  readonly transport?: string;
  readonly includeReplays: boolean;
}
export type CheckedReplay =
  | { readonly resume: string }
  | {
      readonly resume?: undefined;
      readonly conditions: ReplayConditions;
      readonly from: Date | null;
      readonly until: Date | null;
    };

const TEXTS = ['key', 'type', 'topic', 'transport'] as const;
const TIMES = ['publishedFrom', 'publishedUntil'] as const;
const CONDITIONS = ['ids', ...TEXTS, ...TIMES, 'includeReplays', 'resume'] as const;
const MAX_IDS = 500;
const REPLAY = 'replay';

export function checkedReplay(selection: ReplaySelection): CheckedReplay {
  checkObject(REPLAY, 'a filter', selection, CONDITIONS);
  if (selection.resume !== undefined) return resumed(selection);
  const includeReplays = checkedFlag(REPLAY, 'includeReplays', selection.includeReplays);
  const { ids } = selection;
  const [from, until] = TIMES.map((name) => checkedTime(name, selection[name]));
  if (ids === undefined && from === undefined) refuseEverything(until !== undefined);
  if (from !== undefined && until !== undefined && from >= until)
    refuse(REPLAY, 'publishedFrom must be before publishedUntil');
  const texts = TEXTS.flatMap((name) => {
    const text = checkedText(REPLAY, name, selection[name]);
    return text === undefined ? [] : [[name, text] as const];
  });
  const named = checkedIds(REPLAY, ids, MAX_IDS);
  const conditions = { ...(named && { ids: named }), ...Object.fromEntries(texts), includeReplays };
  return { conditions, from: from ?? writtenFrom(named ?? []), until: until ?? null };
}

function resumed(selection: ReplaySelection): CheckedReplay {
  const other = CONDITIONS.find((name) => name !== 'resume' && selection[name] !== undefined);
  if (other !== undefined) refuse(REPLAY, `resume has the filter of its replay, so ${other} must be left out`);
  return { resume: checkedAuditId(REPLAY, 'resume', selection.resume) };
}

function refuseEverything(hasEnd: boolean): never {
  const problem = hasEnd ? 'publishedFrom is missing' : 'neither ids nor publishedFrom is given';
  const all = 'Give one of them: nothing replays a whole archive by accident. All of it is publishedFrom: new Date(0).';
  refuse(REPLAY, problem, 'INVALID_MESSAGE', all);
}

function checkedTime(name: string, time: unknown): Date | undefined {
  if (time === undefined) return undefined;
  if (!(time instanceof Date)) refuse(REPLAY, `${name} must be a Date, not ${typeName(time)}`);
  // Other years are none of a calendar that all databases know.
  const year = time.getUTCFullYear();
  return year >= 1970 && year <= 9999 ? time : refuse(REPLAY, `${name} is a Date without a time from 1970 to 9999`);
}

/** Milliseconds that the clock of whoever made an id may be ahead of the database's: an hour of the archive is looked at quickly. */
const AHEAD = 3_600_000;

/** Nothing is published before it is written. Ids that tell no time: `null`, from the beginning. */
function writtenFrom(ids: readonly string[]): Date | null {
  const times = writtenBetween(ids);
  return times === undefined || ids.length === 0 ? null : new Date(Math.max(0, times.from - AHEAD));
}
