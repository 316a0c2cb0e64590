import type { PublishResult, OutboxDispatcher, OutboxMessage } from '../../lib/index.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import type { RelayLoops } from '../../lib/relay/relay-loops.js';
import { Reader } from '../../lib/relay/read/reader.js';
import { ProbedLowWaterMark } from '../../lib/relay/read/probed-low-water-mark.js';
import { SnapshotLowWaterMark } from '../../lib/relay/read/snapshot-low-water-mark.js';
import { FakeClock } from '../../lib/testing/fake-clock.js';
import { bucketOf } from '../../lib/message/bucket-of.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';

const NEVER = 3_600_000;
/** No publish that the test holds back is given up meanwhile. */
const PATIENT = { lease: '30m', publishTimeout: '10m' } as const;

/** What was left behind is found by what tells that numbers went back, or by nobody: a scan of everything would find it after 45 s. */
function withoutFullScan({ relays }: OutboxDispatcher): void {
  for (const loops of relays) Object.assign((loops as RelayLoops).relay.reader.lateRows.scan, { every: NEVER });
}

/** Two keys of different buckets. */
function keysApart(buckets: number): [string, string] {
  const first = 'a';
  let second = 'b';
  for (let n = 0; bucketOf(second, buckets) === bucketOf(first, buckets); n += 1) second = `b${n}`;
  return [first, second];
}

/** MariaDB and MySQL tell in whole seconds when a table was made: what is made anew within the same one looks unchanged. */
export async function isOfAnotherSecond({ dataSource }: Harness): Promise<boolean> {
  const rows: unknown[] = await dataSource.query(
    `select 1 from information_schema.tables
     where table_schema = database() and table_name = 'outbox_ready' and create_time < now()`,
  );
  return rows.length === 1;
}

/** Numbers of messages that go back, or are given out again, under a running relay. */
export function describeNumbers(kind: DatabaseKind): void {
  let harness: Harness;
  afterEach(() => harness?.close());

  const send = (key: string, ...texts: string[]): Promise<unknown> =>
    harness.enqueue(texts.map((text) => ({ key, payload: Buffer.from(text) })));

  const TRUNCATE = kind === 'postgres' ? ['truncate outbox_ready restart identity'] : ['truncate outbox_ready'];
  const SET_BACK =
    kind === 'postgres'
      ? [`select setval('outbox_ready_seq_seq', 1, false)`]
      : ['alter table outbox_ready auto_increment = 1'];
  /** In how many looks one change may show: InnoDB tells the numbers of an altered table before its new time. */
  const LOOKS = kind === 'postgres' ? 1 : 2;

  it.each([
    ['TRUNCATE', TRUNCATE],
    ['the sequence is set back', SET_BACK],
  ])('P1: %s under a running relay: what comes then is read in order, at once, and a warning tells', async (_, sql) => {
    harness = await createHarness(kind, { ...PATIENT, buckets: 2, pollInterval: 100 });
    const transport = new ScriptedTransport();
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    const old = Array.from({ length: 12 }, (__, n) => `old${n}`);
    for (const text of old) await send('k', text);
    await transport.until(() => transport.published.length === old.length);
    await until(async () => (await harness.count('ready')) === 0);
    for (const statement of sql) await harness.dataSource.query(statement);
    const texts = Array.from({ length: 8 }, (__, n) => `new${n}`);
    for (const text of texts) await send('k', text);
    await transport.until(() => transport.published.length === old.length + texts.length);
    expect(transport.texts).toEqual([...old, ...texts]);
    const warning = await hooks.until('warning');
    expect(warning.text).toMatch(/^transport 'default': .*(back|emptied).*everything is read again, in order/);
    expect(dispatcher.status().transports[0]?.readAgain).toBe(hooks.of('warning').length);
    expect(hooks.of('warning').length).toBeLessThanOrEqual(LOOKS);
  });

  it('P1: the sequence is set back while messages with higher numbers are in flight: what comes then is published at once', async () => {
    harness = await createHarness(kind, { ...PATIENT, buckets: 2, pollInterval: 100 });
    const [k1, k2] = keysApart(2);
    const transport = new ScriptedTransport();
    const held: ((result: PublishResult) => void)[] = [];
    transport.behave = ({ payload }) =>
      String(payload).startsWith('held') ? new Promise((resolve) => held.push(resolve)) : PUBLISHED;
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    const old = Array.from({ length: 12 }, (__, n) => `old ${n}`);
    await send(k1, ...old);
    await transport.until(() => transport.published.length === old.length);
    await send(k1, 'held 1');
    await send(k2, 'held 2');
    await until(() => held.length === 2);
    if (kind !== 'postgres') await until(() => isOfAnotherSecond(harness));
    for (const statement of SET_BACK) await harness.dataSource.query(statement);
    const { text: why } = await hooks.until('warning'); // those in flight are read again, at once
    // InnoDB gives out none below a row that is there, but an ALTER TABLE writes the table anew, for all that anybody can see.
    expect(why).toContain(kind === 'postgres' ? 'the numbers of outbox_ready went back' : 'emptied or written anew');
    const texts = Array.from({ length: 8 }, (__, n) => `new ${n}`); // in both buckets
    for (const [n, text] of texts.entries()) {
      await send(text, text);
      await transport.until(() => transport.published.length > old.length + n);
      await until(async () => (await harness.count('ready')) === held.length); // a write of the relay, by which marks rise
    }
    expect([...transport.texts].sort()).toEqual([...texts, ...old].sort());
    for (const resolve of held) resolve(PUBLISHED);
    await until(async () => (await harness.count('ready')) === 0);
    expect(hooks.of('warning').length).toBeLessThanOrEqual(LOOKS);
  });

  it('P2: a number that is given out again while the message that had it is in flight: both are published, in order', async () => {
    harness = await createHarness(kind, { ...PATIENT, buckets: 2, pollInterval: 100 });
    const [k1, k2] = keysApart(2);
    const transport = new ScriptedTransport();
    let acknowledge: (result: PublishResult) => void = () => undefined;
    transport.behave = ({ payload }) =>
      String(payload) === 'lost' ? new Promise((resolve) => (acknowledge = resolve)) : PUBLISHED;
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    await send(k1, 'warm');
    await transport.until(() => transport.published.length === 1);
    await until(async () => (await harness.count('ready')) === 0);
    await send(k1, 'lost');
    await until(() => transport.attempted.length === 2);
    // A failover that lost the last commit: its row is gone, its number is given out again, all sessions end.
    const [row] = (await harness.dataSource.query('select seq from outbox_ready')) as { seq: string }[];
    await harness.dataSource.query('delete from outbox_ready');
    await failOver(String(row?.seq));
    await send(k2, 'first');
    expect((await harness.dataSource.query('select seq from outbox_ready')) as unknown[]).toEqual([row]);
    await transport.until(() => transport.texts.includes('first')); // while that one is out
    acknowledge(PUBLISHED);
    await send(k2, 'second');
    await transport.until(() => transport.published.length === 4);
    expect(transport.texts).toEqual(['warm', 'first', 'lost', 'second']);
    await until(async () => (await harness.count('ready')) === 0);
  });

  it('P8: a failover that lost what waits in memory behind a message that is on its way: it is not published any more', async () => {
    harness = await createHarness(kind, { ...PATIENT, buckets: 1, pollInterval: 100 });
    const { dataSource } = harness;
    const transport = new ScriptedTransport();
    let acknowledge: (result: PublishResult) => void = () => undefined;
    transport.behave = ({ payload }) =>
      String(payload) === 'out' ? new Promise((resolve) => (acknowledge = resolve)) : PUBLISHED;
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    await send('k', 'out', 'lost', 'kept');
    await until(() => transport.attempted.length === 1);
    const rows = (await dataSource.query('select seq from outbox_ready order by seq')) as { seq: string }[];
    await dataSource.query(`delete from outbox_ready where seq = ${rows[1]?.seq}`);
    await endSessions();
    await send('other', 'new'); // of the server that answers now
    await transport.until(() => transport.texts.includes('new')); // while that one is out
    acknowledge(PUBLISHED);
    await transport.until(() => transport.texts.includes('kept'));
    expect(transport.texts).toEqual(['new', 'out', 'kept']);
    await until(async () => (await harness.count('ready')) === 0);
  });

  it('P5: a failover that lost the verdict on a message that was tried again: it is published again, and its key goes on', async () => {
    harness = await createHarness(kind, { ...PATIENT, buckets: 2, pollInterval: 100, retry: { initial: 50, max: 50 } });
    const { dataSource } = harness;
    const transport = new ScriptedTransport();
    let acknowledge: ((result: PublishResult) => void) | undefined;
    transport.behave = ({ payload, attempts }) => {
      if (String(payload) !== 'again') return PUBLISHED;
      if (attempts === 0) return { ok: false, blame: 'message', error: new Error('refused once') };
      return acknowledge === undefined ? new Promise((resolve) => (acknowledge = resolve)) : PUBLISHED;
    };
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    await send('k', 'again', 'behind');
    await until(() => acknowledge !== undefined);
    // What the replica has: both rows are parked, the first is marked as being sent.
    await dataSource.query('create table replica as select * from outbox_parked');
    acknowledge?.(PUBLISHED);
    await until(async () => (await harness.count('parked')) === 0);
    await dataSource.query('insert into outbox_parked select * from replica');
    await endSessions();
    await transport.until(() => transport.texts.filter((text) => text === 'behind').length === 2);
    expect(transport.texts).toEqual(['again', 'behind', 'again', 'behind']);
    await until(async () => (await harness.count('parked')) === 0);
  });

  it('P5: likewise in a global order, while it is held by another message that fails', async () => {
    harness = await createHarness(kind, {
      ordering: 'global',
      pollInterval: 100,
      retry: { initial: 1_000, max: 1_000 },
    });
    const { dataSource } = harness;
    const transport = new ScriptedTransport();
    let isRight = false;
    let copied: Promise<unknown> | undefined;
    transport.behave = async ({ payload, attempts }) => {
      const text = String(payload);
      const isRefused = text === 'held' ? !isRight : text === 'again' && attempts === 0;
      if (isRefused) return { ok: false, blame: 'message', error: new Error('refused') };
      if (text === 'again') await (copied ??= dataSource.query('create table replica as select * from outbox_parked'));
      return PUBLISHED;
    };
    const enqueue = (text: string) => harness.enqueue([{ bucket: 0, key: text, payload: Buffer.from(text) }]);
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    await enqueue('again');
    await transport.until(() => transport.texts.includes('again'));
    await until(async () => (await harness.count('parked')) === 0);
    await enqueue('held');
    await until(async () => (await harness.count('parked')) === 1);
    await dataSource.query('insert into outbox_parked select * from replica');
    await endSessions();
    isRight = true;
    await enqueue('last');
    await transport.until(() => transport.texts.includes('last'));
    expect(transport.texts).toEqual(['again', 'again', 'held', 'last']);
  });

  it('P1: numbers go back in a global order that is held, and pass what was seen: what comes then is read in order, at once', async () => {
    harness = await createHarness(kind, { ordering: 'global', pollInterval: 100, retry: { initial: 100, max: 100 } });
    const transport = new ScriptedTransport();
    let isRight = false;
    transport.behave = ({ payload }) =>
      isRight || String(payload) !== 'held' ? PUBLISHED : { ok: false, blame: 'message', error: new Error('refused') };
    const enqueue = (text: string) => harness.enqueue([{ bucket: 0, key: text, payload: Buffer.from(text) }]);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    withoutFullScan(dispatcher);
    const old = Array.from({ length: 4 }, (__, n) => `old${n}`);
    for (const text of old) await enqueue(text);
    await transport.until(() => transport.published.length === old.length);
    await enqueue('held');
    await until(async () => (await harness.count('parked')) === 1 && (await harness.count('ready')) === 0);
    for (const statement of SET_BACK) await harness.dataSource.query(statement);
    await hooks.until('warning');
    const texts = Array.from({ length: 8 }, (__, n) => `new${n}`); // the last ones have numbers that nobody saw before
    for (const text of texts) await enqueue(text);
    isRight = true;
    await transport.until(() => transport.published.length === old.length + 1 + texts.length);
    expect(transport.texts).toEqual([...old, 'held', ...texts]);
    expect(hooks.of('warning').length).toBeLessThanOrEqual(LOOKS);
  });

  it('P3: a full scan that finds a row below the low-water mark says so, and everything is read again, in order', async () => {
    harness = await createHarness(kind, { buckets: 1 });
    const { store, dataSource } = harness;
    await send('k', 'a', 'b', 'c');
    const clock = new FakeClock();
    const EVERY = 50;
    const floor = kind === 'postgres' ? new SnapshotLowWaterMark() : new ProbedLowWaterMark(() => clock.monotonic());
    const marks = floor instanceof ProbedLowWaterMark ? floor.lower.marks : floor.lowWaterMarks;
    const told: string[] = [];
    const reader = new Reader(store.ready, 0, floor, clock, { fullScanEvery: EVERY, warn: (why) => told.push(why) });
    reader.add(0);
    const textsOf = (messages: readonly OutboxMessage[]): string[] => messages.map(({ payload }) => String(payload));
    /** With a full scan in it. */
    const read = async (): Promise<string[]> => {
      await clock.advance(EVERY);
      return textsOf((await reader.read(100)).messages);
    };
    const seqs = (await reader.read(100)).messages.map(({ seq }) => seq);
    expect(await read()).toEqual([]);
    marks.set(0, seqs[2] as string);
    for (let scan = 0; scan < 5; scan += 1) expect(await read()).toEqual([]); // what it knows is no proof
    expect(told).toEqual([]);
    await send('k', 'late', 'later');
    const [last] = (await dataSource.query('select max(seq) as seq from outbox_ready')) as { seq: string }[];
    marks.set(0, String(last?.seq)); // as if it had passed them
    reader.heads.set(0, String(last?.seq));
    while (told.length === 0) expect(await read()).toEqual([]);
    expect(told).toEqual([expect.stringMatching(/^a message stood at number \d+, where none could appear any more/)]);
    expect(textsOf((await reader.read(100)).messages)).toEqual(['late', 'later']);
    expect(await read()).toEqual([]);
    expect([told.length, reader.readAgain]).toEqual([1, 1]);
  });

  async function failOver(seq: string): Promise<void> {
    const what = kind === 'postgres' ? 'sequence outbox_ready_seq_seq restart' : 'table outbox_ready auto_increment =';
    await harness.dataSource.query(`alter ${what} ${seq}`);
    return endSessions();
  }

  async function endSessions(): Promise<void> {
    const { dataSource } = harness;
    if (kind === 'postgres') {
      await dataSource.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and application_name = 'nestjs-outbox'`,
      );
      return;
    }
    const own = (await dataSource.query(
      `select id from information_schema.processlist where db = database() and id <> connection_id()`,
    )) as { id: number }[];
    for (const { id } of own) await dataSource.query(`kill ${id}`).catch(() => undefined);
  }
}
