// @tier gate
import { inProcess } from '../../lib/transports/in-process/in-process.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { Fate, History, NO_EXCUSE } from './history.js';
import { judge, prompt } from './judge.js';
import type { FaultKind, PlannedFault } from './plan-faults.js';
import { drawOutage } from './plan-hours.js';
import { MemoryDatabase } from './store/memory-database.js';

describe('the judge of a simulated history', () => {
  it('takes what an operator removed, and a buffer still held, for no break of order', () => {
    const [first, second] = [fate('1', 0), fate('2', 1)];
    first.removed = 5;
    expect(orderOf([second, first])).toEqual([]);
    first.removed = undefined;
    expect(orderOf([second, first])).toEqual(['invariant 3: 2 was published before 1']);
  });

  it('lets a long INSERT be passed while a snapshot is held, where it was told or its relay began anew', () => {
    const [first, second] = [fate('1', 0), fate('2', 1)];
    Object.assign(first, { insertTook: 11_000, attempted: 9 });
    second.attempted = 5;
    const passed = (tell: (history: History) => void): readonly string[] =>
      orderOf([second, first], (history) => {
        history.faults.set('snapshot held', 1);
        tell(history);
      });
    const broken = ['invariant 3: 2 was published before 1'];
    expect(passed((history) => (history.overtaken = true))).toEqual([]);
    expect(passed((history) => history.begun.push(7))).toEqual([]);
    expect(passed((history) => history.begun.push(3))).toEqual(broken);
    expect(orderOf([second, first], (history) => (history.overtaken = true))).toEqual(broken);
    first.insertTook = 1_500;
    expect(passed((history) => (history.overtaken = true))).toEqual(broken);
  });

  it('asks for promptness where destinations are missing and nothing else goes wrong, also for hours', () => {
    const late = fate('00000000-0000-7000-8000-000000000003', 0);
    late.taken.splice(0, 1, 60_000);
    const brokenBeside = (...kinds: FaultKind[]): readonly string[] => {
      const history = new History(() => 10, false, undefined);
      history.fates.set(late.id, late);
      const faults = kinds.map((kind): PlannedFault => ({
        kind,
        at: 0,
        slot: 0,
        ms: 50_000,
        after: 0,
        topic: 'topic 1',
      }));
      for (const { kind } of faults) history.fault(kind, '', NO_EXCUSE);
      prompt(history, { ...drawOutage(1, faults), destinations: 'by key' }, options());
      return history.violations;
    };
    expect(brokenBeside('destination missing')).toEqual([expect.stringMatching(/^invariant 15: .* waited \d+ ms/)]);
    expect(brokenBeside('destination missing', 'broker blocks')).toEqual([]);
  });
});

/** Of one transaction and one key, in this place of it. */
function fate(name: string, index: number): Fate {
  const writer = { state: 'committed' } as Fate['writer'];
  const made = new Fate(name, 'key', 'key', name, false, 0, index, 1, writer);
  made.committed = 1;
  made.taken.push(2 + index);
  return made;
}

function orderOf(
  sightings: readonly Fate[],
  happened: (history: History) => unknown = () => undefined,
): readonly string[] {
  const history = new History(() => 10, false, undefined);
  for (const one of sightings) history.fates.set(one.id, one);
  history.sightings.push(...sightings);
  happened(history);
  judge(history, new MemoryDatabase({ now: () => 10 }), options());
  return history.violations;
}

function options(): ResolvedOptions {
  return resolveOptions({ transports: { default: inProcess() } });
}
