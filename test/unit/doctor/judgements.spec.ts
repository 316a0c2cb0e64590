import type { OutboxHealth } from '../../../lib/index.js';
import { doctorSettings } from '../../../lib/doctor/options.js';
import { judgeHealth } from '../../../lib/doctor/reasons.js';
import { judgeRelays } from '../../../lib/doctor/relays.js';
import { reportOf } from '../../../lib/doctor/report.js';
import { judgeClock, judgePlans } from '../../../lib/doctor/server.js';
import { judgeSnapshot, judgeTables, judgeUnpurged } from '../../../lib/doctor/tables.js';
import type { TableFacts } from '../../../lib/store/diagnose/diagnose-store.js';
import { found, isOk } from '../../../lib/transports/diagnosis.js';
import { judgeTopic, type TopicFacts } from '../../../lib/transports/kafka/judge-topic.js';

describe('what no test can break on a real server', () => {
  it('a purge of InnoDB that is millions behind', () => {
    expect(judgeUnpurged(999_999).severity).toBe('ok');
    expect(judgeUnpurged(1_000_000)).toMatchObject({ severity: 'warning', evidence: { historyListLength: 1_000_000 } });
  });

  it('a snapshot of a replication slot, of a session whose age is hidden', () => {
    const slot = {
      server: 'PostgreSQL',
      holder: `replication slot 'standby'`,
      details: [],
      end: 'Drop the replication slot, or end the prepared transaction.',
      transaction: 's',
      age: 90_000,
      dead: 7,
    } as const;
    expect(judgeSnapshot(slot, 60_000, 100_000)).toMatchObject({
      severity: 'warning',
      fix: 'Drop the replication slot, or end the prepared transaction.',
      text: "The oldest transaction is that of replication slot 'standby' (), for 90 seconds.",
      evidence: { deadRows: 7, since: new Date(10_000) },
    });
    expect(judgeSnapshot({ ...slot, age: 7_201_377.4 }, 60_000, 0).text).toMatch(/, for 2 hours\.$/);
    const hidden = { ...slot, holder: 'session 4711', age: undefined, end: 'select pg_terminate_backend(4711);' };
    expect(judgeSnapshot(hidden, 60_000, 0)).toMatchObject({
      severity: 'note',
      fix: 'select pg_terminate_backend(4711);',
    });
  });

  it('the uncertainty of a slow answer is taken off a difference of clocks', () => {
    expect(judgeClock({ here: 6_000, database: 0, roundTrip: 2_100 }).severity).toBe('note');
    expect(judgeClock({ here: 6_000, database: 0, roundTrip: 2_000 }).severity).toBe('warning');
    expect(judgeClock({ here: 0, database: 1_500, roundTrip: 1_200 }).severity).toBe('ok');
    expect(judgeClock({ here: 60_000, database: 0, roundTrip: 0 }).text).toMatch(/ is 1m ahead of the database's\.$/);
    expect(judgeClock({ here: 0, database: 2_000, roundTrip: 0 }).text).toMatch(/ is 2s behind the database's\.$/);
  });

  it.each([
    ['warning', { lease: 10_000, publishTimeout: 2_000 }, 'Set lease to 14s or more, or lower publishTimeout.'],
    ['note', { shutdownTimeout: 1_000 }, 'Set shutdownTimeout to 10s or more.'],
    ['ok', { lease: 14_000, publishTimeout: 2_000 }, null],
  ])('times that do not fit together: %s', (severity, times, fix) => {
    const options = { lease: 30_000, publishTimeout: 10_000, shutdownTimeout: 10_000, buckets: 32, ...times };
    const facts = { relays: [], buckets: [], transports: [] };
    const judged = judgeRelays(facts, { ...options, coordination: 'rowLock' });
    expect(judged.find(({ code }) => code === 'times')).toMatchObject({ severity, fix });
  });

  it('options that are none', () => {
    expect(() => doctorSettings({ outages: '1h' } as never)).toThrow("did you mean 'outage'?");
    expect(() => doctorSettings({ outage: 'long' as never })).toThrow('outage must be a duration');
    expect(() => doctorSettings({ freeBytes: -1 })).toThrow('freeBytes must be a whole number');
  });

  it('a transport without a relay, for which nothing waits yet', () => {
    const facts = { relays: [], buckets: [], transports: ['crm'] };
    const times = { lease: 30_000, publishTimeout: 10_000, shutdownTimeout: 10_000 };
    expect(judgeRelays(facts, { ...times, coordination: 'rowLock', buckets: 32 })[0]).toMatchObject({
      ...{ severity: 'note', text: "No live relay publishes to 'crm'. 0 messages are ready." },
      consequence: 'What is enqueued for it waits.',
    });
  });

  it('another index than the one that is wanted', () => {
    const plan = { statement: 'read what is ready', table: 'outbox_ready', wanted: 'outbox_ready_pkey' };
    expect(judgePlans([{ ...plan, index: 'mine' }])).toMatchObject([
      { code: 'plan', severity: 'error', evidence: { index: 'mine' } },
    ]);
    expect(judgePlans([{ ...plan, index: 'outbox_ready_pkey' }])).toMatchObject([{ severity: 'ok' }]);
  });

  it('dead rows count beside live ones', () => {
    const table: TableFacts = {
      table: 'ready',
      name: 'outbox_ready',
      bytes: 1,
      liveRows: 0,
      deadRows: 100_001,
      lastVacuum: null,
      isVacuumedBySelf: true,
    };
    const codes = (facts: TableFacts) =>
      judgeTables([facts], true)
        .filter(({ severity }) => severity !== 'ok')
        .map(({ code }) => code);
    expect(codes(table)).toEqual(['dead-rows']);
    expect(codes({ ...table, liveRows: 60_000 })).toEqual([]);
    expect(codes({ ...table, deadRows: null })).toEqual([]);
  });
});

describe('replicas of a topic, in a cluster of several brokers', () => {
  const topic: TopicFacts = {
    topic: 'orders',
    partitions: 3,
    leaderless: 0,
    replicas: 3,
    inSync: 3,
    config: {
      'min.insync.replicas': '2',
      'retention.ms': '604800000',
      'cleanup.policy': 'delete',
      'max.message.bytes': '1048588',
    },
  };
  const around = {
    transport: 'default',
    brokers: 3,
    outage: null,
    timestamp: 'published',
    maxBytes: 1_048_588,
  } as const;
  const judged = (facts: Partial<TopicFacts>, least = '2') =>
    judgeTopic({ ...topic, ...facts, config: { ...topic.config, 'min.insync.replicas': least } }, around).map(
      ({ severity, text }) => `${severity}: ${text}`,
    );

  it.each([
    ['ok: topic "orders" takes messages: replicas 3, in sync 3.', {}, '2'],
    ['error: topic "orders" has partitions without a leader: 1.', { leaderless: 1 }, '2'],
    ['error: Of topic "orders" too few replicas are in sync: 1, and min.insync.replicas is 2.', { inSync: 1 }, '2'],
    ['warning: topic "orders" has one replica.', { replicas: 1, inSync: 1 }, '1'],
    ['warning: min.insync.replicas of topic "orders" is 1.', {}, '1'],
    ['warning: min.insync.replicas of topic "orders" is 3, and it has as many replicas.', {}, '3'],
  ])('%s', (said, facts, least) => {
    expect(judged(facts, least)).toEqual([said]);
  });

  it('settings that the login may not see', () => {
    expect(judgeTopic({ ...topic, config: null }, around)).toMatchObject([
      { severity: 'note', evidence: { retentionMs: null } },
    ]);
  });
});

describe('the report', () => {
  it('has the worst first, and nothing that a terminal obeys', () => {
    const bad = { text: 'a\u001b[2J', evidence: { name: 'b\u202e' } };
    const findings = [
      isOk('one', 'fine'),
      found('two', 'note', bad, 'c', 'd\u0007'),
      found('three', 'error', bad, null, null),
    ];
    const report = reportOf(findings, { at: new Date(0), took: 1, outage: null });
    expect(report).toMatchObject({
      severity: 'error',
      findings: [{ code: 'three' }, { code: 'two' }, { code: 'one' }],
    });
    expect(JSON.stringify(report)).not.toMatch(/[\u001b\u202e\u0007]/);
    expect(report.findings[1]).toMatchObject({ text: 'a\\u001b[2J', evidence: { name: 'b\\u202e' }, fix: 'd\\u0007' });
  });

  it('leaves out reasons of health that other questions are about', () => {
    const health = {
      status: 'down',
      reasons: [
        { code: 'relay_stopped', text: 'The relay is not running.' },
        { code: 'no_relay', text: 'Nobody.', transport: 'a' },
        { code: 'counts_late', text: 'It is late.' },
      ],
    } as unknown as OutboxHealth;
    expect(judgeHealth(health).map(({ severity, text, evidence }) => [severity, text, evidence['reason']])).toEqual([
      ['error', 'The relay is not running.', 'relay_stopped'],
      ['warning', 'It is late.', 'counts_late'],
    ]);
    expect(judgeHealth({ ...health, reasons: [{ code: 'no_relay', text: 'Nobody.' }] })).toMatchObject([
      { severity: 'ok' },
    ]);
  });
});
