import { documentedSettings } from '../support/debezium.js';
import type { useDebezium } from '../support/debezium-run.js';
import { until } from '../support/until.js';
import { idOf } from './debezium.contract.js';

const JSON_TYPE = { contentType: 'application/json' };

/** A relay at work on the tables that a connector reads. */
export function describeDebeziumBeside(start: ReturnType<typeof useDebezium>): void {
  it('Z14: a relay beside it publishes what is ready a second time and deletes it; what is scheduled goes out by the relay alone', async () => {
    const run = await start();
    const relay = await run.startRelay(['default', 'second']);
    const ids = await run.enqueue(
      { key: 'k', payload: 1, ...JSON_TYPE },
      { key: 'k', payload: 2, ...JSON_TYPE },
      { key: 'k', payload: 3, ...JSON_TYPE, delay: 500 },
    );
    const published = (await run.published(3)).map(idOf);
    expect([...published].sort()).toEqual([...ids].sort()); // what is scheduled may be due before the relay is there
    expect(published.filter((id) => id !== ids[2])).toEqual(ids.slice(0, 2));
    await until(async () => {
      const { ready, scheduled } = (await relay.stats()).total;
      return ready + scheduled === 0;
    });
    const [last] = await run.enqueue({ key: 'k', payload: 4, ...JSON_TYPE });
    expect((await run.routed(3)).map(idOf)).toEqual([ids[0], ids[1], last]);
    expect(await run.countRouted()).toBe(3);
    expect((await run.published(4)).map(idOf)).toEqual([...published, last]);
  });

  it('Z15: with the filter of the page it routes one transport, and a relay that has the others alone publishes those', async () => {
    const run = await start({ capture: false });
    const send = (transport: string | string[]) => run.enqueue({ key: 'k', payload: {}, transport });
    const before = [...(await send('default')), ...(await send('second')), ...(await send(['default', 'second']))];
    await run.capture(documentedSettings('io.debezium.transforms.Filter'));
    await run.startRelay(['second']);
    const all = [...before, ...(await send('second')), ...(await send(['default', 'second']))];
    const at = (...places: number[]) => places.map((place) => all[place]);
    expect((await run.routed(3)).map(idOf)).toEqual(at(0, 2, 4));
    expect((await run.published(4)).map(idOf)).toEqual(at(1, 2, 3, 4));
    await until(async () => (await run.outbox.stats()).transports['second']?.ready === 0);
    expect((await run.outbox.stats()).transports['default']?.ready).toBe(3); // the relay leaves them to whoever deletes old rows
    expect(await run.countRouted()).toBe(3);
  });
}
