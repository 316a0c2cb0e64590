import { NumberWatch } from '../../../../lib/relay/read/number-watch.js';
import type { NumberSource, Snapshot } from '../../../../lib/store/ready-store.js';

const NO_HEADS = new Map<number, string>();
const snapshot = (xmax: number): Snapshot => ({ xmin: String(xmax), xmax: String(xmax), open: [] });
const source = (last: number | undefined, table = 'file 1', server = 'server 1'): NumberSource => ({
  server,
  table,
  last: last === undefined ? undefined : String(last),
});

describe('numbers that go back', () => {
  it('P1, P8: are seen in what comes with a read: numbers, transaction ids, the server, what holds the rows', () => {
    const watch = new NumberWatch();
    const look = (seen: { snapshot?: Snapshot; source?: NumberSource }): string | undefined =>
      watch.look({ snapshot: seen.snapshot, source: seen.source }, NO_HEADS);
    expect(look({ snapshot: snapshot(1_000), source: source(500) })).toBeUndefined();
    expect(look({ snapshot: snapshot(1_000), source: source(500) })).toBeUndefined();
    expect(look({ snapshot: snapshot(1_001), source: source(501) })).toBeUndefined();
    expect(look({ snapshot: snapshot(1_002), source: source(3) })).toContain('went back from 501 to 3');
    expect(look({ snapshot: snapshot(1_003), source: source(4) })).toBeUndefined();
    expect(look({ snapshot: snapshot(600), source: source(4) })).toContain('transaction ids went back');
    expect(watch.isOfOther).toBe(true);
    expect(look({ snapshot: snapshot(601), source: source(4) })).toBeUndefined();
    expect(look({ snapshot: snapshot(602), source: source(9, 'file 2') })).toContain('emptied or written anew');
    expect(watch.isOfOther).toBe(false); // what waits in memory goes on, before what comes
    expect(look({ snapshot: snapshot(603), source: source(9, 'file 2', 'server 2') })).toContain('another server');
    expect(watch.isOfOther).toBe(true);
    expect(look({ snapshot: snapshot(604), source: source(undefined, 'file 2', 'server 2') })).toBeUndefined();
    expect(look({ snapshot: snapshot(605), source: source(1, 'file 2', 'server 2') })).toBeUndefined();
  });

  it('P1: of a new session only numbers are compared: another server is expected there', () => {
    const watch = new NumberWatch();
    watch.look({ snapshot: snapshot(1_000), source: source(500) }, NO_HEADS);
    watch.newSession();
    expect(watch.look({ snapshot: snapshot(10), source: source(510, 'a', 'b') }, NO_HEADS)).toBeUndefined();
    watch.newSession();
    const other = { snapshot: snapshot(5), source: source(400, 'c', 'd') };
    expect(watch.look(other, NO_HEADS)).toContain('went back from 510 to 400');
  });

  it('P1: are compared with what was read since, where not each read tells them', () => {
    const watch = new NumberWatch();
    const look = (head: number, last?: number): string | undefined =>
      watch.look(
        { snapshot: undefined, source: last === undefined ? undefined : source(last) },
        new Map([[0, String(head)]]),
      );
    expect(look(5, 5)).toBeUndefined();
    expect(look(20)).toBeUndefined();
    expect(look(20, 8)).toContain('went back from 20 to 8'); // above the last answer, below what was read since
  });
});
