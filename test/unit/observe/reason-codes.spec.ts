import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { healthOf, type HealthSources } from '../../../lib/observe/health.js';
import { REASON_CODES, reasonCode } from '../../../lib/observe/reason-codes.js';
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
  { operation, transport: 'a', failingFor: 9_000, error: 'no right' },
];
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
  database_refuses: { relay: { ...relay, failing: failing('fetch') } },
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
  transport_blocked: { relay: { ...relay, transports: [{ ...view, circuit: 'blocked' }] } },
  destination_missing: { relay: { ...relay, transports: [{ ...view, away: [{ ...away, putOff: 0 }] }] } },
  destination_away: { relay: { ...relay, transports: [{ ...view, away: [{ ...away, putOff: 3 }] }] } },
  no_relay: { stats: { transports: { b: { ...counts, waiting: 2, instances: 0 } } } },
  dead_letters: { stats: { transports: { a: { ...counts, dead: 1 } } } },
  failing_often: { stats: { transports: { a: { ...counts, waiting: 1, failingOften: 1, mostAttempts: 12 } } } },
  keys_blocked: { stats: { transports: { a: { ...counts, blockedKeys: 1, blocked: 4 } } } },
  lease_rows_missing: { stats: { transports: { a: { ...counts, missingLeases: 2 } } } },
  rows_hidden: { stats: { transports: { a: { ...counts, rowsHidden: true } } } },
  standing_still: {
    lease: 30_000,
    stats: { transports: { a: counts }, standing: new Map([['a', { standsFor: 90_000, stands: [stand] }]]) },
  },
};
const reasonsOf = (change: Partial<HealthSources>): readonly string[] =>
  healthOf({
    mode: true,
    relay,
    transports: new Map([['a', { kind: 'rabbitmq', receipt: 'broker' }]]),
    stats: { transports: { a: counts } },
    ...change,
  }).reasons;

describe('the code of a reason of health', () => {
  it.each(Object.entries(COMPLAINTS))('%s', (code, change) => {
    const reasons = reasonsOf(change);
    expect([reasons.length > 0, ...new Set(reasons.map(reasonCode))]).toEqual([true, code]);
  });

  it('knows each of them, and what else they say', () => {
    expect(REASON_CODES.map(([code]) => code).sort()).toEqual(Object.keys(COMPLAINTS).sort());
    expect(reasonCode(new StoreClosed().message)).toBe('database_silent');
    expect(reasonsOf({ relay: { ...relay, failing: failing('park') } }).map(reasonCode)).toEqual(['database_refuses']);
    const many = Array.from({ length: 7 }, () => ({ ...away, putOff: 1 }));
    const more = reasonsOf({ relay: { ...relay, transports: [{ ...view, away: many }] } });
    expect([more.length, ...new Set(more.map(reasonCode))]).toEqual([6, 'destination_away']);
    const hidden =
      'Reading outbox_ready is slow, perhaps for rows that are gone and that a snapshot keeps. Who holds one is hidden.';
    expect([reasonCode(hidden), reasonCode('Something new.')]).toEqual(['snapshot_held', 'other']);
  });

  it('has one for each row of the table of reasons in the page for operators', () => {
    const page = readFileSync(join(process.cwd(), 'docs/operations.md'), 'utf8');
    const table = page.slice(page.indexOf('### What health says'), page.indexOf('### What the database does not do'));
    const rows = table.split('\n').filter((line) => line.startsWith('| "'));
    expect(rows.length).toBeGreaterThan(15);
    const unknown = rows.filter((row) => {
      const said = (row.split(' | ')[0] as string).replace(/^\| /, '').replaceAll('…', '3');
      const sentences = [...said.matchAll(/"([^"]+)"/g)].map(([, sentence]) => sentence as string);
      return ![said.replaceAll('"', ''), ...sentences].some((sentence) => reasonCode(sentence) !== 'other');
    });
    expect(unknown).toEqual([]);
  });
});
