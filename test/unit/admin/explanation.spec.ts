import { notThere, reasonsOf } from '../../../lib/admin/explanation.js';
import type { ExplainSources } from '../../../lib/admin/explanation-reason.js';
import type { SeenRelay } from '../../../lib/observe/seen-relays.js';
import type { RowLease, RowSurroundings, StoredRow } from '../../../lib/store/inspect-store.js';

const NOW = new Date('2026-01-01T12:00:00Z');
const LATER = new Date('2026-01-01T13:00:00Z');
const EARLIER = new Date('2026-01-01T11:00:00Z');
const row = (fields: Partial<StoredRow> = {}): StoredRow => ({
  state: 'ready',
  transport: 1,
  bucket: 3,
  seq: '7',
  id: 'm',
  topic: 'orders',
  key: 'k',
  type: 't',
  version: 1,
  contentType: 'application/json',
  attempts: 0,
  lastError: null,
  createdAt: EARLIER,
  dueAt: null,
  lastAttemptAt: null,
  diedAt: null,
  publishedAt: null,
  sendingEpoch: null,
  rowId: null,
  ...fields,
});
const LEASE: RowLease = { owner: 'o', epoch: '5', expiresAt: LATER, isLive: true, trial: null };
const around = (fields: Partial<RowSurroundings> = {}): RowSurroundings => ({
  now: NOW,
  lease: LEASE,
  blocker: null,
  ahead: 0,
  ...fields,
});
const alive = (transports: string[], more: Partial<SeenRelay> = {}): SeenRelay[] => [
  { owner: 'o', place: 'host pid 7', lease: 30_000, state: 'live', heardAt: NOW, transports, troubles: [], ...more },
];
const DOWN = { code: 'transport_down', text: "Transport 'main' is down: refused.", transport: 'main' } as const;
const sources = (fields: Partial<ExplainSources> = {}): ExplainSources => ({
  names: new Map([[1, 'main']]),
  relays: alive(['main']),
  pauses: [],
  usesLeases: true,
  ...fields,
});
const of = (fields: Partial<StoredRow>, near: Partial<RowSurroundings> = {}, more: Partial<ExplainSources> = {}) =>
  reasonsOf(row(fields), around(near), sources(more));
const waiting = { state: 'waiting', dueAt: LATER, attempts: 2, lastError: 'no.' } as const;
const FREE = { ...LEASE, owner: null, isLive: false };

describe('why a message is not sent', () => {
  it.each([
    [
      'published',
      of({ state: 'published', publishedAt: EARLIER }),
      "It was published to 'main' at 2026-01-01T11:00:00.000Z.",
    ],
    ['sending', of({ ...waiting, sendingEpoch: '5' }), "It is being sent to 'main' now, by instance o."],
    [
      'dead',
      of({ state: 'dead', diedAt: EARLIER, attempts: 5, lastError: 'bad\u001b' }),
      "It is dead for 'main' since 2026-01-01T11:00:00.000Z, after 5 attempts: bad\\u001b.",
    ],
    [
      'scheduled',
      of({ state: 'scheduled', dueAt: LATER }, { blocker: row() }),
      "It is scheduled for 2026-01-01T13:00:00.000Z, and not published to 'main' before that.",
    ],
    [
      'waiting',
      of(waiting),
      "It waits for its next attempt at 2026-01-01T13:00:00.000Z, after 2 attempts to 'main': no.",
    ],
    [
      'blocked',
      of({}, { blocker: row({ ...waiting, attempts: 0, id: 'x' }) }),
      'It is blocked behind message x of its key, which waits for its next attempt at 2026-01-01T13:00:00.000Z at the latest: no.',
    ],
    [
      'blocked',
      of({ state: 'blocked' }, { blocker: row({ state: 'blocked', id: 'x' }) }),
      'It is blocked behind message x of its key, which is blocked.',
    ],
    [
      'no-relay',
      of({}, { lease: FREE }, { relays: alive(['other']) }),
      "No live relay publishes to 'main'; 1 relay is alive.",
    ],
    [
      'no-relay',
      of({}, {}, { relays: [], usesLeases: false }),
      "No live relay publishes to 'main'; 0 relays are alive.",
    ],
    ['no-owner', of({}, { lease: FREE }), "Bucket 3 of 'main' has no owner."],
    [
      'no-owner',
      of({}, { lease: { ...LEASE, isLive: false, expiresAt: EARLIER } }),
      "Bucket 3 of 'main' has no owner: the lease of o ran out at 2026-01-01T11:00:00.000Z.",
    ],
    ['no-owner', of({}, { lease: null }), "Bucket 3 of 'main' has no lease row, or it is hidden from this login."],
    [
      'owner-gone',
      of({}, {}, { relays: [] }),
      "Bucket 3 of 'main' is leased until 2026-01-01T13:00:00.000Z by instance o, which has gone silent.",
    ],
    [
      'circuit-open',
      of({}, {}, { relays: alive(['other']) }),
      "Bucket 3 of 'main' is leased by instance o (host pid 7), which publishes nothing to 'main' now: its circuit is open.",
    ],
    [
      'circuit-open',
      of({}, {}, { relays: alive(['main'], { troubles: [DOWN] }) }),
      "Bucket 3 of 'main' is leased by instance o (host pid 7), which publishes nothing to 'main' now: Transport 'main' is down: refused.",
    ],
    [
      'circuit-open',
      of({}, { lease: FREE }, { relays: alive(['main'], { troubles: [DOWN] }) }),
      "1 live relay has 'main'. Transport 'main' is down: refused.",
    ],
    [
      'owner-gone',
      of({}, {}, { relays: alive(['main'], { state: 'silent', heardAt: EARLIER }) }),
      "Bucket 3 of 'main' is leased until 2026-01-01T13:00:00.000Z by instance o (host pid 7), which last reported at 2026-01-01T11:00:00.000Z.",
    ],
    [
      'ready',
      of({}, { ahead: 2 }),
      "It is its turn, with 2 ready messages before it in its bucket: instance o (host pid 7) publishes bucket 3 to 'main'.",
    ],
    [
      'ready',
      of({ ...waiting, dueAt: EARLIER, sendingEpoch: '4' }),
      "It is its turn: instance o (host pid 7) publishes bucket 3 to 'main'.",
    ],
    ['ready', of({}, {}, { usesLeases: false }), "It is ready: 1 live relay publishes to 'main'."],
  ])('%s', (code, [reason], text) => {
    expect(reason).toMatchObject({ code, transport: 'main', text });
  });

  it('says besides what holds it when nobody would publish it either', () => {
    const nobody = of(waiting, { lease: FREE }, { relays: [] });
    expect(nobody.map((each) => each.code)).toEqual(['waiting', 'no-relay']);
    expect(of({ state: 'dead' }, { lease: FREE }, { relays: [] }).map((each) => each.code)).toEqual(['dead']);
  });

  it('says of what is not there whether it may be there all the same', () => {
    expect(notThere(false, 0)).toMatchObject({ code: 'not-searched', transport: null });
    expect(notThere(true, undefined).text).toMatch(/or its transaction is still open\.$/);
    expect(notThere(true, 0).text).toMatch(/and no transaction with writes is open\.$/);
    expect(notThere(true, 2)).toMatchObject({ code: 'not-found', facts: { openTransactions: 2 } });
  });
});
