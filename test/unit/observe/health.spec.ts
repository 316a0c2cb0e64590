import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OutboxHealth } from '../../../lib/index.js';
import { healthOf, type HealthSources } from '../../../lib/observe/health.js';
import type { SeenRelay } from '../../../lib/observe/seen-relays.js';
import { codesOf, textsOf } from '../../support/reasons.js';
import { REASON_CODES } from '../../../lib/observe/reason-codes.js';
import { StoreClosed } from '../../../lib/store/executor.js';

const parked = { scheduled: 0, waiting: 0, blocked: 0, dead: 0, blockedKeys: 0 };
const ready = { ready: 0, readyIsExact: true, oldestReadyAge: null };
const counts = { configured: true, ...ready, ...parked, leasedBuckets: 32, instances: 1 };
const view = { transport: 'a', receipt: 'broker', circuit: 'closed', lastError: null } as const;
const relay = { running: true, storeDownFor: null, transports: [view] };
const away = { name: 'queue "q"', awayFor: 5_000, error: 'gone' };
const failing = (operation: 'lease' | 'fetch' | 'park') => [
  { operation, transport: operation === 'lease' ? null : 'a', failingFor: 9_000, error: 'no right' },
];
const silent: SeenRelay = {
  owner: 'o',
  place: 'host pid 7',
  lease: 30_000,
  state: 'silent',
  heardAt: new Date(0),
  transports: ['b'],
  troubles: [],
};
const stand = { bucket: 0, seq: '1', id: 'x', age: 90_000, ready: 1, lease: null, standsFor: 90_000 };

/** What health says of this. `a` is the transport of the relay of this process. */
const healthWith = (change: Partial<HealthSources>): OutboxHealth =>
  healthOf({
    mode: true,
    relay,
    transports: new Map([['a', { kind: 'rabbitmq', receipt: 'broker' }]]),
    stats: { transports: { a: counts } },
    ...change,
  });
const counted = (change: object, name = 'a') => ({ stats: { transports: { [name]: { ...counts, ...change } } } });
const relayWith = (change: object) => ({ relay: { ...relay, ...change } });
const transportWith = (change: object) => relayWith({ transports: [{ ...view, ...change }] });
const said = (change: Partial<HealthSources>): readonly string[] => {
  const health = healthWith(change);
  return [health.status, ...textsOf(health)];
};

/** Everything that health can complain of: how it is, and how the sentence begins. */
const COMPLAINTS: Record<string, [Partial<HealthSources>, OutboxHealth['status'], string]> = {
  database_silent: [
    { stats: { error: new Error('postgres://u:secret@h') } },
    'down',
    'The database does not answer: postgres://***@h.',
  ],
  database_read_only: [{ stats: { transports: {}, readOnly: true } }, 'down', 'The database is read-only: '],
  database_copied: [
    relayWith({ heldBack: 'The messages in outbox_ready came from another database, with a backup or a copy; …' }),
    'down',
    'The messages in outbox_ready came from another database',
  ],
  database_refuses: [
    relayWith({ failing: failing('park') }),
    'degraded',
    "Recording what failed of 'a' fails: no right.",
  ],
  reads_failing: [
    relayWith({ failing: failing('fetch') }),
    'down',
    "Reading the ready messages of 'a' fails: no right.",
  ],
  lease_renewal_failing: [
    relayWith({ failing: failing('lease') }),
    'down',
    'Renewing the leases in the database fails: no right.',
  ],
  lease_renewal_slow: [relayWith({ slowRenewal: 1_204.6 }), 'degraded', 'Renewing the leases took 1205ms.'],
  relay_stopped: [relayWith({ running: false, transports: [] }), 'down', 'The relay is not running.'],
  counts_late: [{ stats: { late: 2_000 } }, 'degraded', 'The database has not counted the messages within 2s.'],
  process_stood_still: [
    { lease: 30_000, ...relayWith({ heartbeatLate: 12_000 }) },
    'degraded',
    'The process was frozen or blocked for 12s.',
  ],
  snapshot_held: [
    relayWith({
      heldSnapshot: { text: 'PostgreSQL has kept dead rows of outbox_ready for 14m: session 1 holds', isSlow: true },
    }),
    'degraded',
    'PostgreSQL has kept dead rows',
  ],
  transport_down: [transportWith({ circuit: 'open', lastError: 'gone' }), 'down', "Transport 'a' is down: gone."],
  transport_blocked: [
    transportWith({ circuit: 'blocked', lastError: 'alarm' }),
    'down',
    "Transport 'a' asks to wait: alarm.",
  ],
  paused: [
    {
      stats: {
        transports: {},
        pauses: [
          {
            transport: 0,
            name: 'a',
            topic: null,
            key: null,
            since: new Date(0),
            actor: 'ann',
            reason: 'wrong prices.',
          },
        ],
      },
    },
    'degraded',
    "Transport 'a' is paused since 1970-01-01T00:00:00.000Z by ann: wrong prices.",
  ],
  trial: [transportWith({ onTrial: 12 }), 'degraded', "Transport 'a': messages go one by one"],
  destination_missing: [
    transportWith({ away: [{ ...away, putOff: 0 }] }),
    'degraded',
    'Transport \'a\': queue "q" is missing: gone.',
  ],
  destination_away: [
    transportWith({ away: [{ ...away, putOff: 3 }] }),
    'degraded',
    'Transport \'a\': queue "q" takes nothing: gone.',
  ],
  no_relay: [
    counted({ ready: 3, waiting: 2, instances: 0, configured: false }, 'b'),
    'degraded',
    "5 messages for 'b', which no live relay publishes. This process does not have it: give it back to the options of a relay",
  ],
  relay_silent: [
    { stats: { ...counted({ ready: 2, instances: 0 }, 'b').stats, relays: [silent] } },
    'degraded',
    "2 messages for 'b'",
  ],
  dead_letters: [counted({ dead: 4 }), 'degraded', "4 dead messages for 'a' wait for requeue or discard."],
  failing_often: [
    counted({ waiting: 3, failingOften: 2, mostAttempts: 36 }),
    'degraded',
    "2 messages for 'a' have failed 10 times or more, the most 36 times: `last_error` says why.",
  ],
  keys_blocked: [
    counted({ waiting: 1, blockedKeys: 1, blocked: 2 }),
    'degraded',
    "1 key of 'a' is blocked by a failed message, with 2 messages behind it: until it is published or cancelled.",
  ],
  lease_rows_missing: [counted({ missingLeases: 3 }), 'degraded', "3 lease rows of 'a' are missing"],
  rows_hidden: [counted({ rowsHidden: true }), 'degraded', 'Row security hides messages for'],
  standing_still: [
    {
      lease: 30_000,
      stats: { transports: { a: counts }, standing: new Map([['a', { standsFor: 90_000, stands: [stand] }]]) },
    },
    'degraded',
    "Messages for 'a' are ready, and none has moved for 90s",
  ],
};
/** Failures of the catalogue that one of them tells of. */
const TELLS: Readonly<Record<string, string>> = {
  process_stood_still: 'G7: a heartbeat that is more than a third of a lease late',
  lease_renewal_slow: 'E15: renewals that leave no time to publish in',
  failing_often: 'D9: messages that have failed again and again',
  lease_rows_missing: 'I10: lease rows that are out of sight',
  rows_hidden: 'I10: messages that are out of sight',
};

describe('health', () => {
  it('is up when everything works, and where a process only enqueues', () => {
    const report = { kind: 'rabbitmq', receipt: 'broker', circuit: 'closed', lastError: null };
    expect(healthWith({})).toMatchObject({ status: 'up', reasons: [], transports: { a: report } });
    const idle = { mode: false as const, ...relayWith({ running: false, transports: [] }) };
    expect(healthWith(idle)).toMatchObject({ status: 'up', transports: { a: { circuit: 'idle' } } });
    expect(said({ lease: 30_000, ...relayWith({ heartbeatLate: 9_000 }) })).toEqual(['up']);
    expect(said(counted({ waiting: 1, blockedKeys: 1, missingLeases: 0, rowsHidden: false, failingOften: 0 }))).toEqual(
      ['up'],
    );
  });

  it.each(Object.entries(COMPLAINTS).map(([code, row]) => [TELLS[code] ?? code, code, ...row] as const))(
    '%s',
    (_, code, change, status, text) => {
      const health = healthWith(change);
      expect([health.status, [...new Set(codesOf(health))]]).toEqual([status, [code]]);
      expect(textsOf(health)[0]?.slice(0, text.length)).toBe(text);
    },
  );

  it('has a code for each sentence', () => {
    expect([...REASON_CODES].sort()).toEqual(Object.keys(COMPLAINTS).sort());
    const closed = healthWith({ stats: { error: new StoreClosed() } });
    expect([codesOf(closed), textsOf(closed)]).toEqual([
      ['database_silent'],
      ['This outbox is closed, as its application is: nothing can be asked of its tables.'],
    ]);
    const refused = { stats: { error: Object.assign(new Error('no right'), { code: '42501' }) } };
    expect(said(refused)).toEqual(['degraded', 'Reading the counts of the messages fails: no right (42501).']);
    const full = { stats: { error: Object.assign(new Error('too many'), { sqlState: '42000', errno: 1226 }) } };
    expect(said(full)).toEqual(['down', 'The database does not answer: too many.']);
    const many = Array.from({ length: 7 }, () => ({ ...away, putOff: 1 }));
    const codes = codesOf(healthWith(transportWith({ away: many })));
    expect([codes.length, ...new Set(codes)]).toEqual([6, 'destination_away']);
  });

  it('puts first why nothing goes out, and says since when', () => {
    const stopped = { ...relayWith({ running: false }), stats: { late: 2_000 } };
    expect(codesOf(healthWith(stopped))).toEqual(['relay_stopped', 'counts_late']);
    const [reason] = healthWith({ ...relayWith({ failing: failing('lease') }), now: 100_000 }).reasons;
    expect(reason?.since).toEqual(new Date(91_000));
  });

  it('is degraded while one of several transports goes out, or can be read', () => {
    const two = (first: object) => [
      { ...view, ...first },
      { ...view, transport: 'b' },
    ];
    expect(said(relayWith({ transports: two({ circuit: 'open' }) }))[0]).toBe('degraded');
    expect(said(relayWith({ transports: two({}), failing: failing('fetch') }))[0]).toBe('degraded');
  });

  it('E14: is down while no transport can be read', () => {
    const both = ['a', 'b'].map((transport) => ({ operation: 'fetch', transport, failingFor: 500, error: 'denied' }));
    const transports = [view, { ...view, transport: 'b' }];
    expect(said(relayWith({ transports, failing: both }))).toEqual([
      'down',
      "Reading the ready messages of 'a' fails: denied.",
      "Reading the ready messages of 'b' fails: denied.",
    ]);
  });

  it('does not say that no relay is there for what its own relay cannot publish at the moment', () => {
    const { stats } = counted({ ready: 3, instances: 0 });
    const texts = (circuit: string, running = true): readonly string[] => {
      const transports = [{ ...view, circuit, lastError: 'gone' }] as never;
      return said({ mode: running ? true : 'manual', ...relayWith({ running, transports }), stats }).slice(1);
    };
    expect(texts('open')).toEqual(["Transport 'a' is down: gone."]);
    expect(texts('probing')).toEqual(["Transport 'a' is down: gone."]);
    expect(texts('blocked')).toEqual(["Transport 'a' asks to wait: gone."]);
    // It has begun, or its broker is back, and its next heartbeat is still to come.
    expect(texts('closed')).toEqual([]);
    expect(texts('closed', false)).toEqual(["3 messages for 'a', which no live relay publishes."]);
  });

  it('D1: tells of keys that wait for an operator, each number as people write it', () => {
    const way = 'published, requeued, discarded or released';
    expect(said(counted({ dead: 1, blockedKeys: 1 })).slice(1)).toEqual([
      "1 dead message for 'a' waits for requeue or discard.",
      `1 key of 'a' is blocked by a failed message, with 0 messages behind it: until it is ${way}.`,
    ]);
    expect(said(counted({ dead: 2, blockedKeys: 2, blocked: 1 }))[2]).toBe(
      `2 keys of 'a' are blocked by a failed message, with 1 message behind it: until it is ${way}.`,
    );
    expect(said(counted({ dead: 1 }))).toHaveLength(2);
  });

  it('Y3: counts one as one', () => {
    expect([
      said({ ...relayWith({ transports: [] }), ...counted({ ready: 1, instances: 0 }) })[1],
      said(counted({ failingOften: 1, mostAttempts: 36 }))[1],
      said(counted({ waiting: 7, failingOften: 1, mostAttempts: 36, atLeast: ['waiting'] }))[1],
      said(counted({ missingLeases: 1 }))[1],
    ]).toEqual([
      "1 message for 'a', which no live relay publishes.",
      "1 message for 'a' has failed 36 times: `last_error` says why.",
      "1 or more messages for 'a' have failed 10 times or more, the most 36 times: `last_error` says why.",
      expect.stringMatching(/^1 lease row of 'a' is missing, .* lies in its bucket\./),
    ]);
  });

  it('has a sentence for each row of the table of reasons in the page for operators', () => {
    const page = readFileSync(join(process.cwd(), 'docs/operations.md'), 'utf8');
    const table = page.slice(page.indexOf('### What health says'), page.indexOf('### Missing destinations'));
    const rows = table.split('\n').filter((line) => line.startsWith('| "'));
    expect(rows.length).toBeGreaterThan(15);
    const one = healthWith({
      lease: 30_000,
      stats: { transports: { a: counts }, standing: new Map([['a', { standsFor: 0, stands: [stand] }]]) },
    });
    const texts = [...Object.values(COMPLAINTS).map(([change]) => healthWith(change)), one].flatMap(textsOf);
    const parts = rows.flatMap((row) =>
      [...(row.split(' | ')[0] as string).matchAll(/"([^"]+)"/g)].map(([, text]) => text),
    );
    const unknown = parts.filter((part) => !texts.some((text) => patternOf(part as string).test(singular(text))));
    expect(unknown).toEqual([]);
  });
});

/** Three dots stand for anything. */
const patternOf = (words: string): RegExp =>
  new RegExp(
    singular(words)
      .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      .replaceAll('…', '.*'),
  );
/** The table has the plural. */
const singular = (words: string): string =>
  words
    .replace(/\b(message|key|lease row)s\b/g, '$1')
    .replace(/\b(are|is)\b/g, 'is')
    .replace(/\b(have|has)\b/g, 'has')
    .replace(/\bwaits?\b/g, 'wait');
