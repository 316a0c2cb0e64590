import type { GrowthFacts } from '../store/diagnose/diagnose-store.js';
import { durationText } from '../time/duration.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';
import { lastingText } from './lasting.js';

/** For how long the broker may be down. */
export interface OutageBudget {
  /** Seconds until the first limit is reached, at the present rate; `null`: no limit is known, or nothing is enqueued. */
  readonly lasts: number | null;
  /** `null`: the numbers went back meanwhile, as after a restore. */
  readonly rate: EnqueueRate | null;
  /** Bytes of one message, the average of some that are stored; `null`: none is. */
  readonly messageBytes: number | null;
  /** The one that is reached first comes first. */
  readonly limits: readonly OutageLimit[];
}
/** How fast messages come. */
export interface EnqueueRate {
  /** Messages a second, each once for each of its transports. */
  readonly perSecond: number;
  /** Seconds over which it was measured. */
  readonly over: number;
  /** How it was measured. */
  readonly how: string;
}
/** What an outage of the broker comes up against. */
export interface OutageLimit {
  /** `disk`: free bytes. `tableBytes`: the option. `numbers`: of the messages. `maxAge`: after it a message is not tried again. */
  readonly limit: 'disk' | 'tableBytes' | 'numbers' | 'maxAge';
  /** What is left of it: bytes, numbers, or seconds. */
  readonly left: number;
  /** Seconds until it is reached; `null`: never, at the present rate. */
  readonly reachedIn: number | null;
}

export interface OutageFacts {
  readonly first: GrowthFacts;
  /** A while later. */
  readonly last: GrowthFacts;
  readonly tableBytes: number | undefined;
  readonly freeBytes: number | undefined;
  /** Bytes that the tables may have. */
  readonly mostTableBytes: number | undefined;
  /** Milliseconds; `null`: messages of any age are tried. */
  readonly maxAge: number | null;
}

/** Pure. */
export function outageBudget(facts: OutageFacts): OutageBudget {
  const { last, freeBytes, tableBytes, mostTableBytes, maxAge } = facts;
  const rate = rateOf(facts);
  const messageBytes = last.rowBytes;
  const bytesPerSecond = rate === null || messageBytes === null ? null : rate.perSecond * messageBytes;
  const room = mostTableBytes === undefined || tableBytes === undefined ? undefined : mostTableBytes - tableBytes;
  const limits: OutageLimit[] = [
    ...(freeBytes === undefined ? [] : [limit('disk', freeBytes, bytesPerSecond)]),
    ...(room === undefined ? [] : [limit('tableBytes', Math.max(0, room), bytesPerSecond)]),
    limit('numbers', Number(BigInt(last.highest) - BigInt(last.last)), rate?.perSecond ?? null),
    ...(maxAge === null ? [] : [{ limit: 'maxAge' as const, left: maxAge / 1_000, reachedIn: maxAge / 1_000 }]),
  ];
  limits.sort((a, b) => (a.reachedIn ?? Infinity) - (b.reachedIn ?? Infinity));
  return { lasts: limits[0]?.reachedIn ?? null, rate, messageBytes, limits };
}

function limit(name: OutageLimit['limit'], left: number, perSecond: number | null): OutageLimit {
  return { limit: name, left, reachedIn: perSecond === null || perSecond === 0 ? null : Math.round(left / perSecond) };
}

/** A row of before tells more than the short while between two looks. */
function rateOf({ first, last }: OutageFacts): EnqueueRate | null {
  const ways = [
    ...(last.earlier === null
      ? []
      : [
          {
            since: last.earlier.at,
            seq: last.earlier.seq,
            how: 'numbers given out since the oldest message of the last hour that is still stored',
          },
        ]),
    { since: first.at, seq: first.last, how: 'numbers given out between two looks' },
  ];
  const [way] = ways.sort((a, b) => a.since - b.since);
  if (way === undefined) return null;
  const over = (last.at - way.since) / 1_000;
  const numbers = Number(BigInt(last.last) - BigInt(way.seq));
  if (over <= 0 || numbers < 0) return null; // numbers that went back: a restored backup
  return {
    perSecond: Math.round((numbers / over) * 1_000) / 1_000,
    over: Math.round(over * 1_000) / 1_000,
    how: way.how,
  };
}

/** @param wanted milliseconds */
export function judgeOutage(budget: OutageBudget, wanted: number): Finding {
  const { lasts, rate, messageBytes, limits } = budget;
  const [first] = limits;
  const evidence = evidenceOf(budget, wanted);
  const until =
    lasts === null || first === undefined ? undefined : `${lastingText(lasts)}, until ${LIMIT_NAMES[first.limit]}`;
  if (lasts !== null && first !== undefined && lasts * 1_000 < wanted) {
    const text = `The broker may be down for ${until}; wanted are ${durationText(wanted)}.`;
    return found('outage-budget', 'warning', { text, evidence }, CONSEQUENCES[first.limit], FIXES[first.limit]);
  }
  const hasRoom = limits.some(({ limit: name }) => name === 'disk' || name === 'tableBytes');
  if (rate?.perSecond !== 0 && (!hasRoom || messageBytes === null)) {
    const [text, fix] = hasRoom ? NO_SIZE : NO_ROOM;
    const unknown = { ...evidence, lastsSeconds: null, limit: null }; // what is left would be of the numbers alone
    return found(
      'outage-budget',
      'note',
      { text, evidence: unknown },
      'For how long the broker may be down is not known.',
      fix,
    );
  }
  const text =
    until === undefined
      ? 'No limit is reached at the current rate of enqueues.'
      : `The broker may be down for ${until}.`;
  return isOk('outage-budget', text, evidence);
}

const NO_SIZE = ['No message is stored whose size could be taken.', 'Ask again while messages are stored.'] as const;
const NO_ROOM = [
  'The database does not tell how much room is left.',
  'Give freeBytes or tableBytes to diagnose().',
] as const;

function evidenceOf({ lasts, rate, messageBytes, limits }: OutageBudget, wanted: number): Finding['evidence'] {
  return {
    lastsSeconds: lasts,
    wantedSeconds: wanted / 1_000,
    limit: lasts === null ? null : (limits[0]?.limit ?? null),
    messagesPerSecond: rate?.perSecond ?? null,
    measuredOverSeconds: rate?.over ?? null,
    how: rate?.how ?? null,
    messageBytes,
    ...Object.fromEntries(limits.map(({ limit: name, left }) => [`${name}Left`, left])),
  };
}

const LIMIT_NAMES: Readonly<Record<OutageLimit['limit'], string>> = {
  disk: 'the disk is full',
  tableBytes: 'the tables have the size that they may have',
  numbers: 'the numbers of messages are used up',
  maxAge: 'messages reach retry.maxAge',
};
const CONSEQUENCES: Readonly<Record<OutageLimit['limit'], string>> = {
  disk: 'Then the database takes no writes at all, those of your own tables included.',
  tableBytes: 'Then the tables are larger than they may be.',
  numbers: 'Then nothing can be enqueued.',
  maxAge: 'Messages that wait longer die at their next failure.',
};
const FIXES: Readonly<Record<OutageLimit['limit'], string>> = {
  disk: 'Enlarge the disk, or delete what need not be there: retention.published, retention.dead.',
  tableBytes: 'Raise tableBytes, or delete what need not be there: retention.published, retention.dead.',
  numbers: 'Move to new tables under another database.prefix.',
  maxAge: 'Raise retry.maxAge, or leave it out.',
};
