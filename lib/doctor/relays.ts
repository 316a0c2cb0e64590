import type { BucketState } from '../admin/bucket-table.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { counted } from '../observe/plural.js';
import { stopOf, type SeenRelay } from '../observe/seen-relays.js';
import { durationText } from '../time/duration.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';

/** Pure: who publishes, and whether the settings of those who do fit together. */

export interface RelayFacts {
  readonly relays: readonly SeenRelay[];
  readonly buckets: readonly BucketState[];
  /** Those of this process. */
  readonly transports: readonly string[];
}
type Options = Pick<ResolvedOptions, 'lease' | 'publishTimeout' | 'shutdownTimeout' | 'coordination' | 'buckets'>;

export function judgeRelays({ relays, ...rest }: RelayFacts, options: Options): Finding[] {
  const facts = { ...rest, relays: relays.filter(({ state }) => state === 'live') };
  return [
    ...facts.transports.map((name) => judgeLive(name, facts)),
    ...(options.coordination === 'rowLock' ? [] : judgeBuckets(facts, options)),
    judgeLeases(facts.relays, options),
    judgeTimes(options),
  ];
}

function judgeLive(transport: string, { relays, buckets }: RelayFacts): Finding {
  const live = relays.filter(({ transports }) => transports.includes(transport));
  const stops = live.flatMap((relay) => stopOf(relay, transport) ?? []);
  const mine = buckets.filter((bucket) => bucket.transport === transport);
  const ready = mine.reduce((sum, bucket) => sum + bucket.ready, 0);
  const places = live.map(({ place }) => place).slice(0, 10);
  const evidence = { transport, liveRelays: live.length, relays: places.join(', '), readyMessages: ready };
  if (live.length > stops.length)
    return isOk(
      'relay',
      `${counted(live.length, 'live relay publishes', 'live relays publish')} to '${transport}'.`,
      evidence,
    );
  return found(
    'relay',
    ready > 0 ? 'error' : 'note',
    {
      text: `${stops[0]?.text ?? `No live relay publishes to '${transport}'.`} ${counted(ready, 'message is', 'messages are')} ready.`,
      evidence,
    },
    `${ready > 0 ? 'Messages for it wait' : 'What is enqueued for it waits'}.`,
    stops.length > 0
      ? 'Repair what the error names. The relay is alive, and continues by itself.'
      : `Start a process with relay: true and the transport '${transport}'.`,
  );
}

/** Buckets of a finding. */
const NAMED = 10;

function judgeBuckets({ buckets, relays, transports }: RelayFacts, { buckets: count }: Options): Finding[] {
  const named = transports.flatMap((name) => {
    const mine = buckets.filter(({ transport }) => transport === name);
    const hasRelay = relays.some((one) => one.transports.includes(name) && stopOf(one, name) === undefined);
    const of = (lease: BucketState['lease']): BucketState[] => mine.filter((bucket) => bucket.lease === lease);
    const gone = of('leased').filter(({ ownerIsAlive }) => !ownerIsAlive);
    return [
      ...ownerless('missing', name, of('missing')),
      ...(hasRelay ? [...ownerless('expired', name, of('expired')), ...ownerless('free', name, of('free'))] : []),
      ...ownerless('owner gone', name, gone),
    ];
  });
  return named.length > 0
    ? named
    : [isOk('buckets', 'No bucket lacks an owner that a relay could be.', { buckets: count })];
}

type Lack = 'missing' | 'expired' | 'free' | 'owner gone';
const LACKS: Readonly<Record<Lack, { severity: 'error' | 'warning'; says: string; consequence: string; fix: string }>> =
  {
    missing: {
      severity: 'error',
      says: 'no lease row, or one that is hidden from this login',
      consequence: 'Nothing of these buckets is published.',
      fix: 'Start a relay: the start makes the rows that are missing. Or give the login its rights.',
    },
    expired: {
      severity: 'warning',
      says: 'an expired lease that no instance has taken',
      consequence: 'Their messages wait for the next poll of a relay.',
      fix: 'Ask again in a few seconds. When it stays, read the log of the relays: they do not renew.',
    },
    free: {
      severity: 'warning',
      says: 'no owner',
      consequence: 'Their messages wait for the next poll of a relay.',
      fix: 'Ask again in a few seconds. When it stays, read the log of the relays: they take no lease.',
    },
    'owner gone': {
      severity: 'warning',
      says: 'an owner that has gone silent',
      consequence: 'Their messages wait until the leases run out.',
      fix: 'Wait for that, or, when the process is gone for sure: outbox.breakLeases({ owner }).',
    },
  };

function ownerless(lack: Lack, transport: string, buckets: readonly BucketState[]): Finding[] {
  if (buckets.length === 0) return [];
  const { severity, says, consequence, fix } = LACKS[lack];
  const list = buckets.slice(0, NAMED).map(({ bucket }) => bucket);
  const owners = [...new Set(buckets.flatMap(({ owner }) => (owner === null ? [] : [owner])))].slice(0, NAMED);
  const evidence = {
    transport,
    lack,
    buckets: list.join(', '),
    count: buckets.length,
    owners: owners.join(', '),
    readyMessages: buckets.reduce((sum, { ready }) => sum + ready, 0),
  };
  const text = `${counted(buckets.length, 'bucket', 'buckets')} of '${transport}' ${buckets.length === 1 ? 'has' : 'have'} ${says}.`;
  return [found('buckets', severity, { text, evidence }, consequence, fix)];
}

function judgeLeases(relays: readonly SeenRelay[], { lease }: Options): Finding {
  const others = relays.flatMap(({ place, lease: told }) =>
    told === undefined || told === lease ? [] : [`${place}: ${told}`],
  );
  const evidence = { leaseMs: lease, others: others.join(', ') };
  if (others.length === 0) return isOk('lease', `All relays have a lease of ${durationText(lease)}.`, evidence);
  return found(
    'lease',
    'warning',
    { text: `Relays have other leases than ${durationText(lease)}: ${others.join(', ')} ms.`, evidence },
    'How long messages wait after a crash depends on who crashed.',
    'Give all processes the same lease.',
  );
}

/** Milliseconds that a lease keeps beside a publish: 5 s to settle, 2 s of margin. */
const BESIDE = 7_000;

function judgeTimes({ lease, publishTimeout, shutdownTimeout }: Options): Finding {
  const room = lease - publishTimeout - BESIDE;
  const evidence = {
    leaseMs: lease,
    publishTimeoutMs: publishTimeout,
    roomMs: room,
    shutdownTimeoutMs: shutdownTimeout,
  };
  if (room < lease / 3)
    return found(
      'times',
      'warning',
      {
        text: `lease (${durationText(lease)}) leaves ${durationText(room)} beside publishTimeout (${durationText(publishTimeout)}) and 7s.`,
        evidence,
      },
      'Leases are renewed each third of `lease`. A renewal that comes late leaves no time to publish in.',
      `Set lease to ${durationText(Math.ceil((1.5 * (publishTimeout + BESIDE)) / 1_000) * 1_000)} or more, or lower publishTimeout.`,
    );
  if (shutdownTimeout < publishTimeout)
    return found(
      'times',
      'note',
      { text: 'shutdownTimeout is shorter than publishTimeout.', evidence },
      'A stop may cut a publish that is under way: its messages go out once more.',
      `Set shutdownTimeout to ${durationText(publishTimeout)} or more.`,
    );
  return isOk('times', 'lease, publishTimeout and shutdownTimeout fit together.', evidence);
}
