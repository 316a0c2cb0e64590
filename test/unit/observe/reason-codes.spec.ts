import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OutboxHealth } from '../../../lib/index.js';
import { healthOf, type HealthSources } from '../../../lib/observe/health.js';
import type { SeenRelay } from '../../../lib/observe/seen-relays.js';
import { codesOf, textsOf } from '../../support/reasons.js';
import { REASON_CODES } from '../../../lib/observe/reason-codes.js';
import { StoreClosed } from '../../../lib/store/executor.js';

const counts = {
  configured: true,
  ready: 0,
  readyIsExact: true,
  scheduled: 0,
  waiting: 0,
  blocked: 0,
  dead: 0,
  blockedKeys: 0,
  oldestReadyAge: null,
  leasedBuckets: 32,
  instances: 1,
};
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

/** Everything that health can complain of. */
const COMPLAINTS: Record<string, Partial<HealthSources>> = {
  database_silent: { stats: { error: new Error('ECONNREFUSED') } },
  database_read_only: { stats: { transports: {}, readOnly: true } },
  database_copied: {
    relay: {
      ...relay,
      heldBack: 'The messages in outbox_ready came from another database, with a backup or a copy; …',
    },
  },
  database_refuses: { relay: { ...relay, failing: failing('park') } },
  reads_failing: { relay: { ...relay, failing: failing('fetch') } },
  lease_renewal_failing: { relay: { ...relay, failing: failing('lease') } },
  lease_renewal_slow: { relay: { ...relay, slowRenewal: 900 } },
  relay_stopped: { relay: { ...relay, running: false } },
  counts_late: { stats: { late: 2_000 } },
  process_stood_still: { lease: 3_000, relay: { ...relay, heartbeatLate: 2_000 } },
  snapshot_held: {
    relay: {
      ...relay,
      heldSnapshot: { text: 'PostgreSQL has kept dead rows of outbox_ready for 14m: session 1 holds', isSlow: true },
    },
  },
  transport_down: { relay: { ...relay, transports: [{ ...view, circuit: 'open', lastError: 'ECONNREFUSED' }] } },
  transport_blocked: { relay: { ...relay, transports: [{ ...view, circuit: 'blocked', lastError: 'alarm' }] } },
  paused: {
    stats: {
      transports: {},
      pauses: [
        { transport: 0, name: 'a', topic: null, key: null, since: new Date(0), actor: 'ann', reason: 'wrong prices.' },
      ],
    },
  },
  trial: { relay: { ...relay, transports: [{ ...view, onTrial: 12 }] } },
  destination_missing: { relay: { ...relay, transports: [{ ...view, away: [{ ...away, putOff: 0 }] }] } },
  destination_away: { relay: { ...relay, transports: [{ ...view, away: [{ ...away, putOff: 3 }] }] } },
  no_relay: { stats: { transports: { b: { ...counts, waiting: 2, instances: 0 } } } },
  relay_silent: { stats: { transports: { b: { ...counts, ready: 2, instances: 0 } }, relays: [silent] } },
  dead_letters: { stats: { transports: { a: { ...counts, dead: 1 } } } },
  failing_often: { stats: { transports: { a: { ...counts, waiting: 3, failingOften: 3, mostAttempts: 12 } } } },
  keys_blocked: { stats: { transports: { a: { ...counts, blockedKeys: 1, blocked: 4 } } } },
  lease_rows_missing: { stats: { transports: { a: { ...counts, missingLeases: 2 } } } },
  rows_hidden: { stats: { transports: { a: { ...counts, rowsHidden: true } } } },
  standing_still: {
    lease: 30_000,
    stats: { transports: { a: counts }, standing: new Map([['a', { standsFor: 90_000, stands: [stand] }]]) },
  },
};
const healthWith = (change: Partial<HealthSources>): OutboxHealth =>
  healthOf({
    mode: true,
    relay,
    transports: new Map([['a', { kind: 'rabbitmq', receipt: 'broker' }]]),
    stats: { transports: { a: counts } },
    ...change,
  });

describe('the code of a reason of health', () => {
  it.each(Object.entries(COMPLAINTS))('%s', (code, change) => {
    expect([...new Set(codesOf(healthWith(change)))]).toEqual([code]);
  });

  it('is each of them, and those of other sentences', () => {
    expect([...REASON_CODES].sort()).toEqual(Object.keys(COMPLAINTS).sort());
    expect(codesOf(healthWith({ stats: { error: new StoreClosed() } }))).toEqual(['database_silent']);
    const many = Array.from({ length: 7 }, () => ({ ...away, putOff: 1 }));
    const codes = codesOf(healthWith({ relay: { ...relay, transports: [{ ...view, away: many }] } }));
    expect([codes.length, ...new Set(codes)]).toEqual([6, 'destination_away']);
  });

  it('puts first why nothing goes out', () => {
    const health = healthWith({ ...COMPLAINTS['relay_stopped'], stats: { late: 2_000 } });
    expect(codesOf(health)).toEqual(['relay_stopped', 'counts_late']);
  });

  it('has one for each row of the table of reasons in the page for operators', () => {
    const page = readFileSync(join(process.cwd(), 'docs/operations.md'), 'utf8');
    const table = page.slice(page.indexOf('### What health says'), page.indexOf('### Missing destinations'));
    const rows = table.split('\n').filter((line) => line.startsWith('| "'));
    expect(rows.length).toBeGreaterThan(15);
    const one = healthWith({
      lease: 30_000,
      stats: { transports: { a: counts }, standing: new Map([['a', { standsFor: 0, stands: [stand] }]]) },
    });
    const said = [...Object.values(COMPLAINTS).map(healthWith), one].flatMap(textsOf);
    const parts = rows.flatMap((row) =>
      [...(row.split(' | ')[0] as string).matchAll(/"([^"]+)"/g)].map(([, text]) => text),
    );
    const unknown = parts.filter((part) => !said.some((text) => patternOf(part as string).test(singular(text))));
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
