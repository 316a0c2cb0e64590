import type { OutboxEventMap, OutboxEventName } from '../../../lib/index.js';
import { logEvents, type LogLevel } from '../../../lib/observe/log-events.js';
import { EventStream } from '../../../lib/observe/event-stream.js';
import { FakeClock } from '../../../lib/testing/index.js';
import { LineLogger } from '../../support/line-logger.js';

const published = (id: string): OutboxEventMap['published'] => ({ transport: 't', ids: [id], batches: [1] });

describe('the event stream', () => {
  it('delivers later, in order, until the listener leaves', async () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    const seen: string[] = [];
    const off = events.on('published', ({ ids }) => seen.push(...ids));
    events.emit('published', published('1'));
    events.emit('published', published('2'));
    expect(seen).toEqual([]);
    await clock.advance(0);
    expect(seen).toEqual(['1', '2']);
    off();
    events.emit('published', published('3'));
    await clock.advance(1);
    expect(seen).toEqual(['1', '2']);
    expect(events.has('published')).toBe(false);
  });

  it('lets one function listen twice and leave once', async () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    let calls = 0;
    const listener = (): unknown => calls++;
    events.on('cleaned', listener)();
    events.on('cleaned', listener);
    events.emit('cleaned', { published: 1, dead: 0, dedup: 0 });
    await clock.advance(0);
    expect(calls).toBe(1);
  });

  it('gives the next event once', async () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    const next = events.once('published');
    events.emit('published', published('1'));
    events.emit('published', published('2'));
    await clock.advance(0);
    expect(await next).toEqual(published('1'));
    expect(events.has('published')).toBe(false);
  });

  it('survives listeners that throw, reject, hang, or cannot be reported', async () => {
    const clock = new FakeClock();
    const complaints: string[] = [];
    const events = new EventStream(clock, (name, error) => {
      complaints.push(`${name}: ${(error as Error).message}`);
      throw new Error('the reporter is broken too');
    });
    const seen: string[] = [];
    events.on('published', () => {
      throw new Error('thrown');
    });
    events.on('published', async () => {
      throw new Error('rejected');
    });
    events.on('published', () => new Promise(() => {}));
    events.on('published', ({ ids }) => seen.push(...ids));
    events.emit('published', published('1'));
    events.emit('published', published('2'));
    await clock.advance(1);
    expect(seen).toEqual(['1', '2']);
    expect(complaints.sort()).toEqual([
      'published: rejected',
      'published: rejected',
      'published: thrown',
      'published: thrown',
    ]);
  });

  it('drops and counts what is too much, and never holds up the emitter', async () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    let seen = 0;
    events.on('published', () => seen++);
    for (let i = 0; i < 10_500; i++) events.emit('published', published('1'));
    expect(events.dropped).toBe(500);
    await clock.advance(1);
    expect(seen).toBe(10_000);
    events.emit('published', published('1'));
    await clock.advance(1);
    expect(seen).toBe(10_001);
  });

  it('gives the event loop back between batches', async () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    let seen = 0;
    events.on('published', () => seen++);
    for (let i = 0; i < 600; i++) events.emit('published', published('1'));
    const [first] = clock.timers;
    clock.timers.clear();
    first?.action();
    expect(seen).toBe(256);
    expect(clock.pending).toBe(1);
  });

  it('delivers the rest when it is closed, then nothing', () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    const seen: string[] = [];
    events.on('published', ({ ids }) => {
      seen.push(...ids);
      events.emit('published', published('from a listener'));
    });
    events.emit('published', published('1'));
    events.close();
    events.emit('published', published('2'));
    expect(seen).toEqual(['1']);
    expect(clock.pending).toBe(0);
  });

  it('does nothing without listeners', () => {
    const clock = new FakeClock();
    new EventStream(clock).emit('published', published('1'));
    expect(clock.pending).toBe(0);
  });
});

describe('the log', () => {
  const all: { [K in OutboxEventName]: OutboxEventMap[K] } = {
    enqueued: { ids: ['1'] },
    deduplicated: { ids: ['1'] },
    published: { transport: 'kafka', ids: ['1', '2'], batches: [7, 8] },
    retried: { transport: 'kafka', id: '1', type: 'a', topic: 'b', attempts: 2, delay: 1500, error: 'no' },
    dead: { transport: 'kafka', id: '1', type: 'a', topic: 'b', attempts: 20, error: 'no' },
    failed: { transport: 'kafka', count: 3, exampleId: '1', blame: 'transport', error: 'gone away' },
    connected: { transport: 'kafka', took: 12, kind: 'kafka', broker: 'kafka-1:9092' },
    firstPublished: { transport: 'kafka', id: '1', type: 'a', topic: 'b' },
    circuitOpened: { transport: 'kafka', error: 'gone', retryIn: 1000 },
    circuitClosed: { transport: 'kafka', openFor: 61_000 },
    destinationAway: { transport: 'kafka', destination: 'topic "orders"', error: 'unknown topic' },
    destinationBack: { transport: 'kafka', destination: 'topic "orders"', awayFor: 61_000, putOff: 3 },
    paused: { transport: 'kafka', topic: null, key: null, by: 'ana', reason: 'audit', since: new Date(0) },
    resumed: { transport: 'kafka', topic: 'orders', key: 'k', by: 'ana', reason: 'audit', since: new Date(0) },
    leasesAcquired: { transport: 'kafka', buckets: [1, 2] },
    leasesLost: { transport: 'kafka', buckets: [1] },
    leasesHeld: { buckets: 2, owners: ['o'], places: ['laptop pid 7'], runOutIn: 28_000 },
    leasesExpired: { owner: 'o', buckets: 2 },
    snapshotHeld: { server: 'PostgreSQL', table: 'outbox_ready', holder: 'session 4711 (pg_dump)', heldFor: 840_000 },
    snapshotReleased: {
      server: 'PostgreSQL',
      table: 'outbox_ready',
      holder: 'session 4711 (pg_dump)',
      heldFor: 900_000,
    },
    cleaned: { published: 3, dead: 0, dedup: 1 },
    partitionChange: { change: 'drop', partition: 'p202502' },
    partitionsMaintained: {
      outcome: 'done',
      why: null,
      created: ['p202504'],
      dropped: [],
      moved: 2,
      removed: 1,
      notDone: [{ change: 'drop', partition: 'p202502', why: 'locked' }],
    },
    started: { role: 'relay', transports: ['kafka', 'local'], buckets: 32 },
    stopped: { released: true, took: 12.4 },
    error: { operation: 'fetch', error: new Error('boom'), retryIn: 500 },
    warning: { text: 'be careful' },
  };

  async function log(level: LogLevel, clock = new FakeClock()): Promise<{ logger: LineLogger; events: EventStream }> {
    const events = new EventStream(clock);
    const logger = new LineLogger();
    logEvents(events, logger, level, clock);
    for (const name of Object.keys(all) as OutboxEventName[]) events.emit(name, all[name]);
    await clock.advance(0);
    return { logger, events };
  }

  it('has one stable line per event', async () => {
    expect((await log('debug')).logger.lines).toEqual([
      'debug enqueued count=1',
      'debug known, not written count=1',
      'debug published transport=kafka count=2 batches=7,8',
      'debug message will be tried again transport=kafka id=1 type=a topic=b attempts=2 error=no delay=1500ms',
      'error message is dead transport=kafka id=1 type=a topic=b attempts=20 error=no',
      'warn publish failed transport=kafka blame=transport count=3 exampleId=1 error="gone away"',
      "log transport 'kafka' connected (kafka kafka-1:9092) transport=kafka took=12ms",
      "log transport 'kafka' published its first message since the start transport=kafka id=1 type=a topic=b",
      'error transport is down, publishing pauses transport=kafka retryIn=1s error=gone',
      'log transport is back transport=kafka after=61s',
      'warn destination unavailable, its messages wait transport=kafka destination="topic \\"orders\\"" error="unknown topic"',
      'log destination is back transport=kafka destination="topic \\"orders\\"" after=61s putOff=3',
      "warn transport 'kafka' is paused by an operator, nothing is published to it transport=kafka by=ana reason=audit since=1970-01-01T00:00:00.000Z",
      "log the pause of key 'k' of topic 'orders' of transport 'kafka' is over transport=kafka topic=orders key=k by=ana reason=audit since=1970-01-01T00:00:00.000Z",
      'debug buckets taken transport=kafka buckets=2',
      'warn buckets lost transport=kafka buckets=1',
      'log buckets are held by other instances: those that live give back what is more than their share, of others the leases run out buckets=2 owners=o places="laptop pid 7" runOutIn=28s',
      'warn buckets of an instance that ended, or whose lease had run out, are free or taken over owner=o buckets=2',
      'warn PostgreSQL keeps dead rows of outbox_ready, as somebody holds a snapshot holder="session 4711 (pg_dump)" heldFor=14m',
      'log PostgreSQL may remove dead rows of outbox_ready again holder="session 4711 (pg_dump)" heldFor=15m',
      'log cleaned published=3 dead=0 dedup=1',
      'log a partition of the archive is dropped partition=p202502',
      'warn partitions are maintained in part created=1 dropped=0 moved=2 removed=1 notDone="drop p202502: locked"',
      'log started role=relay transports=kafka,local buckets=32',
      'log stopped took=12ms released=true',
      'error fetch failed operation=fetch error=boom retryIn=500ms',
      'warn be careful',
    ]);
  });

  it('has structured fields for JSON loggers', async () => {
    const { logger } = await log('log');
    const { line } = logger.entries.find(({ level }) => level === 'log') as { line: object };
    expect(JSON.parse(JSON.stringify(line))).toEqual({
      event: 'connected',
      message: "transport 'kafka' connected (kafka kafka-1:9092)",
      transport: 'kafka',
      took: '12ms',
    });
  });

  it.each([
    ['log', 22],
    ['warn', 11],
    ['error', 3],
    ['silent', 0],
  ] as const)('at %s has %d of them', async (level, count) => {
    expect((await log(level)).logger.lines).toHaveLength(count);
  });

  it('does not make the hot path build events for lines that are off', async () => {
    const { events } = await log('log');
    expect([events.has('published'), events.has('enqueued'), events.has('retried'), events.has('dead')]).toEqual([
      false,
      false,
      false,
      true,
    ]);
    expect((await log('debug')).events.has('published')).toBe(true);
  });

  it('does not mind a logger whose promises are not kept', async () => {
    const [clock, rejected] = [new FakeClock(), jest.fn()];
    const events = new EventStream(clock);
    process.once('unhandledRejection', rejected);
    const away = (): Promise<void> => Promise.reject(new Error('the log server is away'));
    logEvents(events, { log: away, warn: away, error: away }, 'log', clock);
    events.emit('error', all.error);
    await clock.advance(0);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', rejected);
    expect(rejected).not.toHaveBeenCalled();
  });

  it('counts repetitions instead of printing them', async () => {
    const clock = new FakeClock();
    const { logger, events } = await log('error', clock);
    const before = logger.lines.length;
    for (let i = 0; i < 100; i++) events.emit('error', all.error);
    await clock.advance(0);
    expect(logger.lines).toHaveLength(before);
    await clock.advance(30_000);
    events.emit('error', all.error);
    await clock.advance(0);
    expect(logger.lines.at(-1)).toBe('error fetch failed operation=fetch error=boom retryIn=500ms repeated=100');
    for (let i = 0; i < 1000; i++) {
      events.emit('error', { ...all.error, error: new Error(`another ${i}`) });
      if (i % 200 === 0) await clock.advance(0);
    }
    await clock.advance(0);
    expect(logger.lines).toHaveLength(before + 201); // what is too much is counted together
  });

  it('outlives a logger that throws', async () => {
    const clock = new FakeClock();
    const events = new EventStream(clock);
    const fail = (): never => {
      throw new Error('disk full');
    };
    logEvents(events, { log: fail, warn: fail, error: fail }, 'debug', clock);
    const seen: string[] = [];
    events.on('warning', ({ text }) => seen.push(text));
    events.emit('warning', { text: 'x' });
    events.emit('enqueued', { ids: [] });
    await clock.advance(0);
    expect(seen).toEqual(['x']);
  });
});
