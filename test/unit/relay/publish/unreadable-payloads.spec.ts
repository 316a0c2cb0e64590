import type { OutboxStore } from '../../../../lib/index.js';
import { LargePayloads } from '../../../../lib/relay/publish/large-payloads.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { stored, turn } from '../../../support/transport-relay.js';
import { RecordedHooks } from '../../../support/scripted.js';

/** Reads one large payload by itself, which loses its connection after so many milliseconds. */
async function verdicts(took: number, times: number): Promise<unknown[]> {
  const clock = new FakeClock();
  const readPayloads = async (): Promise<never> => {
    await clock.advance(took);
    throw Object.assign(new Error('lost'), { code: 'PROTOCOL_CONNECTION_LOST' });
  };
  const store = { ready: { readPayloads } } as unknown as OutboxStore;
  const payloads = new LargePayloads({ store, id: 0, hooks: new RecordedHooks(), clock }, () => undefined);
  const found: unknown[] = [];
  for (let i = 0; i < times; i += 1) {
    const verdict = payloads.bring([stored({ id: 'one', body: null, unread: 100_000 })]);
    await turn();
    await clock.advance(200);
    found.push(await verdict);
  }
  return found;
}

describe('a large payload whose read loses its connection', () => {
  it('D8: has failed when that was its deadline, three times', async () => {
    expect(await verdicts(10_000, 3)).toEqual(['later', 'later', expect.objectContaining({ blame: 'message' })]);
  });

  it('D8: is never charged when it was not', async () => {
    expect(await verdicts(100, 6)).toEqual(Array.from({ length: 6 }, () => 'later'));
  });
});

it('D8: a message that is gone is not waited for: row locks leave room for each that is', async () => {
  const clock = new FakeClock();
  const readPayloads = () => Promise.reject(Object.assign(new Error('missing chunk'), { code: 'XX001' }));
  const store = { ready: { readPayloads } } as unknown as OutboxStore;
  const payloads = new LargePayloads({ store, id: 0, hooks: new RecordedHooks(), clock }, () => undefined);
  const verdict = payloads.bring([stored({ id: 'one', body: null, unread: 100_000 })]);
  await turn();
  await clock.advance(200);
  expect([await verdict, payloads.waiting]).toEqual(['later', 1]);
  await clock.advance(10_000); // an operator discarded it: nobody asks for it again
  expect(payloads.waiting).toBe(0);
});
