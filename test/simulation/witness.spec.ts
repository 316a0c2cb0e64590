// @tier gate
import { OutboxMessage } from '../../lib/outbox-message.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { inProcess } from '../../lib/transports/in-process/in-process.js';
import { Fate, History } from './history.js';
import { MemoryDatabase } from './store/memory-database.js';
import { toMessage, type ParkedRow } from './store/memory-rows.js';
import { Witness } from './witness.js';

describe('the witness of a publish', () => {
  const broken = ['invariant 10: 2 is published while 1 is blocked and blocks its key'];

  it('lets a row be passed that was parked after the mark of the later one, where its order was lost', () => {
    const caughtUp = (database: MemoryDatabase): unknown => (database.caughtUp = true);
    expect(passed({ marked: 5, parked: 6 }, caughtUp)).toEqual([]);
    expect(passed({ marked: 6, parked: 5 }, caughtUp)).toEqual(broken);
    expect(passed({ marked: 5, parked: 6 })).toEqual(broken);
  });

  it('lets a long INSERT be passed likewise, where that was told', () => {
    const told = (_: MemoryDatabase, history: History): void => {
      history.faults.set('snapshot held', 1);
      history.overtaken = true;
    };
    expect(passed({ marked: 5, parked: 6, insertTook: 2_500 }, told)).toEqual([]);
    expect(passed({ marked: 6, parked: 5, insertTook: 2_500 }, told)).toEqual(broken);
    expect(passed({ marked: 5, parked: 6, insertTook: 1_500 }, told)).toEqual(broken);
    expect(passed({ marked: 5, parked: 6, insertTook: 2_500 })).toEqual(broken);
  });
});

interface Times {
  readonly marked: number;
  readonly parked: number;
  readonly insertTook?: number;
}

/** Of two messages of a key the first one is parked, and the later one is published. */
function passed(
  { marked, parked, insertTook = 0 }: Times,
  happened: (database: MemoryDatabase, history: History) => unknown = () => undefined,
): readonly string[] {
  let now = 0;
  const history = new History(() => now, false, undefined);
  const options = resolveOptions({ transports: { default: inProcess() } });
  const database = new MemoryDatabase({ now: () => now, settings: options });
  const witness = new Witness(history, database, options);
  const [first, second] = ['1', '2'].map((name, index) => {
    const writer = { state: 'committed' } as Fate['writer'];
    const fate = new Fate(name, 'key', 'key', name, false, 0, index, 1, writer);
    history.fates.set(name, fate);
    return database.addParked(rowOf(fate));
  }) as [ParkedRow, ParkedRow];
  Object.assign(history.fates.get('1') as Fate, { insertTook });
  const events: [number, () => void][] = [
    [marked, () => witness.read([second])],
    [parked, () => witness.parked(first)],
  ];
  for (const [at, happen] of events.sort(([a], [b]) => a - b)) {
    now = at;
    happen();
  }
  happened(database, history);
  const before = history.violations.length;
  const message: OutboxMessage = toMessage(second, false);
  witness.inOrder(1, message, history.fates.get('2') as Fate, new Set(['2']));
  return history.violations.slice(before);
}

function rowOf({ id, writer }: Fate): Omit<ParkedRow, 'parkedId'> {
  const sent = { sendingEpoch: null, dueAt: null, diedAt: null, death: 0, lastError: null, progress: null };
  const row = { id, seq: id, transport: 1, bucket: 0, key: 'key', topic: '', type: '', payload: null, createdAt: 0 };
  return {
    ...row,
    ...sent,
    writer,
    state: 'blocked',
    blocking: true,
    attempts: 0,
    announced: false,
  } as unknown as Omit<ParkedRow, 'parkedId'>;
}
