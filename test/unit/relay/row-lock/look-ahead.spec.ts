import { LookAhead } from '../../../../lib/relay/row-lock/look-ahead.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';

const POLL = 60_000;

describe('how long a relay with row locks waits for what falls due', () => {
  function looking(next: number | null) {
    const clock = new FakeClock();
    const asked: number[][] = [];
    const due = async (_transport: number, buckets: readonly number[]) => {
      asked.push([...buckets]);
      return { rows: [], nextIn: next };
    };
    const relay = { id: 0, store: { parked: { due } }, clock, options: { pollInterval: POLL } };
    return { clock, asked, ahead: new LookAhead(relay as unknown as ConstructorParameters<typeof LookAhead>[0]) };
  }
  const entry = (delay: number | null) => ({ parkedId: '1', bucket: 0, delay }) as never;
  const nothing = { parked: [], reparked: [] };

  it.each([
    [null, POLL],
    [400, 300],
    [100, 20],
    [3 * POLL, POLL],
  ])('what falls due in %s ms, asked 100 ms ago: %s ms', async (next, wait) => {
    const { ahead, clock } = looking(next);
    await ahead.begin([0, 1]);
    await clock.advance(100);
    expect(ahead.end(false, nothing)).toBe(wait);
  });

  it.each([
    [{ parked: [entry(500)], reparked: [] }, 500],
    [{ parked: [], reparked: [entry(null), entry(700)] }, 700],
    [{ parked: [entry(null)], reparked: [] }, 2_000],
    [{ parked: [entry(5_000)], reparked: [entry(3)] }, 20],
  ])('B15: what is tried again falls due as well: %j', async (written, wait) => {
    const { ahead } = looking(2_000);
    await ahead.begin([0]);
    expect(ahead.end(false, written)).toBe(wait);
  });

  it('asks nothing behind a full batch, and looks once more behind the last of them', async () => {
    const { ahead, asked } = looking(400);
    await ahead.begin([0]);
    expect(ahead.end(true, nothing)).toBe(0);
    await ahead.begin([0]);
    expect(asked).toHaveLength(1);
    expect(ahead.end(false, nothing)).toBe(0);
    await ahead.begin([0]);
    expect(asked).toHaveLength(2);
    expect(ahead.end(false, nothing)).toBe(400);
  });
});
