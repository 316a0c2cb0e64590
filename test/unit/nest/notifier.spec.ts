import { Notifier } from '../../../lib/nest/notifier.js';
import { FakeClock } from '../../../lib/testing/index.js';
import { turn } from '../../support/transport-relay.js';

describe('Notifier', () => {
  it('tells of the first commit at once, and of all that follow in the next moments together', async () => {
    const clock = new FakeClock();
    const sent: number[] = [];
    const notifier = new Notifier(
      async () => void sent.push(clock.monotonic()),
      () => undefined,
      clock,
    );
    notifier.notify();
    await turn();
    expect(sent).toEqual([0]);
    for (let i = 0; i < 4; i += 1) {
      notifier.notify();
      await clock.advance(1);
    }
    expect(sent).toEqual([0]);
    await clock.advance(100);
    expect(sent).toEqual([0, 5]);
    notifier.notify();
    await turn();
    expect(sent).toEqual([0, 5, 104]);
  });

  it('sends what is wanted in the pause when it is closed, and waits for no timer', async () => {
    const sent: string[] = [];
    const notifier = new Notifier(
      async (where) => void sent.push(where),
      () => undefined,
      new FakeClock(),
    );
    notifier.notify();
    await turn();
    notifier.notify('leases');
    await notifier.close();
    expect(sent).toEqual(['ready', 'leases']);
  });
});
