import { createHarness, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

const CROWD = 600;
const BATCH = 100;
/** Of a message that is refused, and of those beside it. */
const [BAD, GOOD] = ['bad', 'good'];

describeOnEach([], 'A crowd of second copies, as two replays of one window make them', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  it('F8: is parked beside the first copies, batch by batch, and slows nobody', async () => {
    harness = await createHarness(kind, { batchSize: BATCH, retry: { maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    transport.behave = ({ payload }) =>
      String(payload) === BAD ? { ok: false, blame: 'message', error: new Error('no') } : { ok: true };
    let parks = 0;
    const { dispatcher, hooks } = harness.relay(
      { default: transport },
      {},
      {
        wrapStore: (store) =>
          wrapped(store, {
            park: (...args) => {
              parks += 1;
              return store.ready.park(...args);
            },
          }),
      },
    );
    const bad = await harness.enqueue(many(BAD));
    await dispatcher.start();
    await hooks.until('dead', CROWD, 60_000);
    const [before] = [parks];

    const good = many(GOOD);
    await harness.enqueue(bad.flatMap((id, n) => [{ id, payload: Buffer.from(BAD) }, good[n] as object]));
    await transport.until(() => transport.published.length === CROWD, 60_000);
    await hooks.until('dead', 2 * CROWD, 60_000);
    await until(async () => (await harness.count('ready')) === 0);
    expect(await harness.count('parked')).toBe(2 * CROWD);
    expect(hooks.of('error')).toEqual([]);
    expect(transport.attempted).toHaveLength(3 * CROWD);
    expect(parks - before).toBeLessThan(CROWD / 4); // a row that cannot be parked is looked for among those beside it

    transport.behave = () => ({ ok: true });
    const ids = bad.slice(0, CROWD / 2);
    const { changed } = await operatorOf(harness.store).requeue({ ids });
    expect(new Set(changed)).toEqual(new Set(ids));
    await transport.until(() => transport.published.length === 2 * CROWD, 60_000);
    await until(async () => (await harness.count('parked')) === CROWD);
  });
});

const many = (text: string): { payload: Buffer }[] =>
  Array.from({ length: CROWD }, () => ({ payload: Buffer.from(text) }));
