import { inProcess } from '../../lib/publish/transports/in-process.js';
import { resolveOptions } from '../../lib/resolve-options.js';
import { Fate, History } from './history.js';
import { judge } from './judge.js';
import { MemoryDatabase } from './store/memory-database.js';

describe('the judge of a simulated history', () => {
  it('takes what an operator removed, and a buffer still held, for no break of order', () => {
    const [first, second] = [fate('1', 0), fate('2', 1)];
    first.removed = 5;
    expect(orderOf([second, first])).toEqual([]);
    first.removed = undefined;
    expect(orderOf([second, first])).toEqual(['invariant 3: 2 was published before 1']);
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

function orderOf(sightings: readonly Fate[]): readonly string[] {
  const history = new History(() => 10, false, undefined);
  for (const one of sightings) history.fates.set(one.id, one);
  history.sightings.push(...sightings);
  judge(history, new MemoryDatabase({ now: () => 10 }), resolveOptions({ transports: { default: inProcess() } }));
  return history.violations;
}
