import { Notifier } from '../../../../lib/relay/wake/notifier.js';
import { FakeClock } from '../../../../lib/testing/index.js';
import { turn } from '../../../support/transport-relay.js';

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
    notifier.notify();
    await notifier.close();
    expect(sent).toHaveLength(2);
  });

  it('tells of failures while it is open; a close does not wait for ever, and a failure behind it is told to nobody', async () => {
    const [failures, isClosed, clock] = [jest.fn(), jest.fn(), new FakeClock()];
    let fail = (_error: Error): void => {};
    const notifier = new Notifier(() => new Promise((_resolve, reject) => (fail = reject)), failures, clock);
    notifier.notify();
    fail(new Error('no route'));
    await clock.advance(10);
    expect(failures).toHaveBeenCalledTimes(1);
    notifier.notify();
    const closed = notifier.close().then(isClosed);
    await clock.advance(900);
    expect(isClosed).not.toHaveBeenCalled();
    await clock.advance(200);
    await closed;
    fail(new Error('Connection terminated'));
    await turn();
    expect(failures).toHaveBeenCalledTimes(1);
  });
});
