import { healthOf, type HealthSources } from '../../../lib/observe/health.js';
import { StoreClosed } from '../../../lib/store/executor.js';
import { textsOf } from '../../support/reasons.js';

describe('health', () => {
  const transportRelay = { transport: 'kafka', receipt: 'broker', circuit: 'closed', lastError: null } as const;
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
  const sources = (change: Partial<HealthSources> = {}): HealthSources => ({
    mode: true,
    relay: { running: true, storeDownFor: null, transports: [transportRelay] },
    transports: new Map([['kafka', { kind: 'kafka', receipt: 'broker' }]]),
    stats: { transports: { kafka: counts }, total: counts },
    ...change,
  });

  it('is up when everything works', () => {
    expect(healthOf(sources())).toMatchObject({
      status: 'up',
      reasons: [],
      relay: { mode: true, running: true },
      transports: { kafka: { kind: 'kafka', receipt: 'broker', circuit: 'closed', lastError: null } },
    });
  });
  it('I10: degraded while lease rows or messages are out of sight', () => {
    const seen = (change: object) => {
      const stats = { transports: { kafka: { ...counts, ...change } }, total: counts };
      return [healthOf(sources({ stats })).status, ...textsOf(healthOf(sources({ stats })))];
    };
    expect(seen({ missingLeases: 0, rowsHidden: false })).toEqual(['up']);
    expect(seen({ missingLeases: 3 })).toEqual([
      'degraded',
      expect.stringMatching(/^3 lease rows of 'kafka' are missing/),
    ]);
    expect(seen({ rowsHidden: true })).toEqual(['degraded', expect.stringMatching(/^Row security hides messages for/)]);
  });
  it('D9: degraded while messages have failed again and again', () => {
    const seen = (change: object) => {
      const health = healthOf(sources({ stats: { transports: { kafka: { ...counts, ...change } }, total: counts } }));
      return [health.status, ...textsOf(health)];
    };
    expect(seen({ waiting: 3, failingOften: 0, mostAttempts: 0 })).toEqual(['up']);
    expect(seen({ waiting: 3, failingOften: 2, mostAttempts: 36 })).toEqual([
      'degraded',
      "2 messages for 'kafka' have failed 10 times or more, the most 36 times: `last_error` says why.",
    ]);
  });
  it('G7: degraded while heartbeats come more than a third of a lease late', () => {
    const relay = (heartbeatLate: number) => ({
      running: true,
      storeDownFor: null,
      transports: [transportRelay],
      heartbeatLate,
    });
    expect(healthOf({ ...sources({ relay: relay(9_000) }), lease: 30_000 }).status).toBe('up');
    expect(healthOf({ ...sources({ relay: relay(12_000) }), lease: 30_000 })).toMatchObject({
      status: 'degraded',
      reasons: [{ code: 'process_stood_still', text: 'The process was frozen or blocked for 12s.' }],
      relay: { heartbeatLate: 12_000 },
    });
  });

  it('E15: degraded while renewing the leases takes too long to publish', () => {
    const relay = { running: true, storeDownFor: null, transports: [transportRelay], slowRenewal: 1_204.6 };
    expect(textsOf(healthOf(sources({ relay })))).toEqual([
      expect.stringMatching(/^Renewing the leases took 1205ms\./),
    ]);
  });

  it('is down without database, without relay, or with every transport down', () => {
    expect(healthOf(sources({ stats: { error: new Error('postgres://u:secret@h') } }))).toMatchObject({
      status: 'down',
      reasons: [{ text: 'The database does not answer: postgres://***@h.' }],
    });
    expect(textsOf(healthOf(sources({ stats: { error: new StoreClosed() } })))).toEqual([
      'This outbox is closed, as its application is: nothing can be asked of its tables.',
    ]);
    expect(healthOf(sources({ relay: { running: false, storeDownFor: null, transports: [] } }))).toMatchObject({
      status: 'down',
      reasons: [{ code: 'relay_stopped' }],
    });
    const failing = [{ operation: 'lease', transport: null, failingFor: 61_000, error: 'gone' }] as const;
    expect(
      healthOf({
        ...sources({ relay: { running: true, storeDownFor: 61_000, failing, transports: [transportRelay] } }),
        now: 100_000,
      }),
    ).toMatchObject({
      status: 'down',
      reasons: [{ text: 'Renewing the leases in the database fails: gone.', since: new Date(39_000) }],
    });
    const open = { ...transportRelay, circuit: 'open', lastError: 'gone' } as const;
    expect(healthOf(sources({ relay: { running: true, storeDownFor: null, transports: [open] } }))).toMatchObject({
      status: 'down',
      reasons: [{ code: 'transport_down', text: "Transport 'kafka' is down: gone.", transport: 'kafka' }],
    });
  });
  it('is degraded when one of several transports is down, when messages are dead, or nobody publishes them', () => {
    const blocked = { ...transportRelay, transport: 'rabbit', circuit: 'blocked' } as const;
    expect(
      healthOf(sources({ relay: { running: true, storeDownFor: null, transports: [transportRelay, blocked] } })),
    ).toMatchObject({
      status: 'degraded',
      reasons: [{ code: 'transport_blocked', text: "Transport 'rabbit' asks to wait." }],
    });
    const orphaned = { ...counts, ready: 3, waiting: 2, instances: 0, configured: false };
    const stats = { transports: { kafka: { ...counts, dead: 4 }, former: orphaned }, total: counts };
    expect(healthOf(sources({ stats }))).toMatchObject({
      status: 'degraded',
      reasons: [
        { text: "4 dead messages for 'kafka' wait for requeue or discard." },
        {
          text: "5 messages for 'former', which no live relay publishes. This process does not have it: give it back to the options of a relay, or remove its messages with cancel and discard.",
        },
      ],
    });
  });
  it('does not say that no relay is there for what its own relay cannot publish at the moment', () => {
    const stats = { transports: { kafka: { ...counts, ready: 3, instances: 0 } }, total: counts };
    const reasonsWith = (circuit: 'open' | 'probing' | 'blocked' | 'closed', running = true): readonly string[] =>
      textsOf(
        healthOf(
          sources({
            mode: running ? true : 'manual',
            relay: { running, storeDownFor: null, transports: [{ ...transportRelay, circuit, lastError: 'gone' }] },
            stats,
          }),
        ),
      );
    expect(reasonsWith('open')).toEqual(["Transport 'kafka' is down: gone."]);
    expect(reasonsWith('probing')).toEqual(["Transport 'kafka' is down: gone."]);
    expect(reasonsWith('blocked')).toEqual(["Transport 'kafka' asks to wait: gone."]);
    // It has begun, or its broker is back, and its next heartbeat is still to come.
    expect(reasonsWith('closed')).toEqual([]);
    expect(reasonsWith('closed', false)).toEqual(["3 messages for 'kafka', which no live relay publishes."]);
  });
  it('D1: tells of keys that hold others back or wait for an operator, not of a retry that holds nobody', () => {
    const reasons = (change: Partial<typeof counts>): readonly string[] =>
      textsOf(healthOf(sources({ stats: { transports: { kafka: { ...counts, ...change } }, total: counts } })));
    const held = (messages: string, way: string) =>
      `1 key of 'kafka' is blocked by a failed message, with ${messages} behind it: until it is ${way}.`;
    expect(reasons({ waiting: 1, blockedKeys: 1 })).toEqual([]);
    expect(reasons({ waiting: 1, blockedKeys: 1, blocked: 2 })).toEqual([held('2 messages', 'published or cancelled')]);
    expect(reasons({ dead: 1, blockedKeys: 1 })).toEqual([
      expect.stringContaining('1 dead message for'),
      held('0 messages', 'published, requeued, discarded or released'),
    ]);
    expect(reasons({ dead: 1 })).toHaveLength(1);
  });
  it('E14: is down while no transport can be read, and degraded while something else fails, or one of several', () => {
    const relay = (operation: 'fetch' | 'take', names: readonly string[]) => {
      const failing = names.map((transport, i) => ({ operation, transport, failingFor: 500 + i, error: 'denied' }));
      return {
        running: true,
        storeDownFor: 500,
        failing,
        transports: [transportRelay, { ...transportRelay, transport: 'rabbit' }],
      };
    };
    const seen = (operation: 'fetch' | 'take', names: readonly string[]) => {
      const health = healthOf(sources({ relay: relay(operation, names) }));
      return [health.status, ...textsOf(health)];
    };
    expect(seen('fetch', ['kafka'])).toEqual(['degraded', "Reading the ready messages of 'kafka' fails: denied."]);
    expect(seen('fetch', ['kafka', 'rabbit'])).toEqual([
      'down',
      "Reading the ready messages of 'kafka' fails: denied.",
      "Reading the ready messages of 'rabbit' fails: denied.",
    ]);
    expect(seen('take', ['kafka'])).toEqual(['degraded', expect.stringMatching(/^Reading due retries/)]);
  });
  it('does not ask a process that only enqueues for a relay', () => {
    const relay = { running: false, storeDownFor: null, transports: [] };
    expect(healthOf(sources({ mode: false, relay }))).toMatchObject({
      status: 'up',
      transports: { kafka: { circuit: 'idle' } },
    });
  });
});
