import { DueRows } from '../../../../lib/relay/order/due-rows.js';
import type { TransportRelayDependencies } from '../../../../lib/relay/relay.types.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';

describe('due rows that somebody else has locked', () => {
  it('are asked for again at the next poll, but for those of a bucket that is gone: its next owner asks', async () => {
    const clock = new FakeClock();
    const relay = { id: 0, clock, options: { pollInterval: 1_000 } } as unknown as TransportRelayDependencies;
    const asked: [number, string][] = [];
    const rows = new DueRows(
      relay,
      () => true,
      (bucket, key) => asked.push([bucket, key]),
    );
    rows.passOver([
      { parkedId: '1', bucket: 0, key: 'gone' },
      { parkedId: '2', bucket: 1, key: 'here' },
    ]);
    rows.forget(0);
    rows.askAgain();
    expect(asked).toEqual([]);
    await clock.advance(1_000);
    rows.askAgain();
    expect(asked).toEqual([[1, 'here']]);
    expect(rows.passedOver.size).toBe(0);
  });
});
