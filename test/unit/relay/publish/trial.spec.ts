import type { OutboxMessage } from '../../../../lib/index.js';
import { Trial, UNCLEAN_ENDS } from '../../../../lib/relay/publish/trial.js';
import type { Acquired } from '../../../../lib/store/lease-store.js';
import { createTransportRelay, stored, turn, type RelayUnderTest } from '../../../support/transport-relay.js';

const BATCH = 2;
const IN_FLIGHT = 2;
/** What its former owner may have had in memory. */
const SUSPECTS = BATCH * IN_FLIGHT;
const some = (count: number, bucket = 0): OutboxMessage[] => Array.from({ length: count }, () => stored({ bucket }));
const left = (fields: Partial<Acquired> = {}): Acquired => ({
  transport: 0,
  bucket: 0,
  epoch: '2',
  crashes: UNCLEAN_ENDS,
  trial: null,
  former: 'former',
  ...fields,
});

function trialOf(...leases: Acquired[]): { trial: Trial; alone: (messages: readonly OutboxMessage[]) => number } {
  const trial = new Trial();
  trial.gained(leases, SUSPECTS);
  const alone = (messages: readonly OutboxMessage[]): number =>
    messages.filter((message) => (trial.meet(message), trial.goesAlone(message))).length;
  return { trial, alone };
}

describe('after three unclean ends', () => {
  it('as many messages go alone as one owner had in all of its buckets', () => {
    const { alone } = trialOf(...[0, 1, 2].map((bucket) => left({ bucket })));
    expect(alone([0, 1, 2].flatMap((bucket) => some(SUSPECTS, bucket)))).toBe(SUSPECTS);
  });

  it('after one more, as many of each bucket and table: those that are read first were others', () => {
    const { alone } = trialOf(...[0, 1].map((bucket) => left({ bucket, crashes: UNCLEAN_ENDS + 1 })));
    const parked = Array.from({ length: SUSPECTS + 3 }, () => stored({ parkedId: 'p' }));
    expect(alone(parked)).toBe(SUSPECTS);
    expect([0, 1, 2].map((bucket) => alone(some(SUSPECTS + 3, bucket)))).toEqual([SUSPECTS, SUSPECTS, 0]);
  });

  it('the message that the lease names is charged once, and then goes alone; nothing else of that owner does', () => {
    const culprit = stored();
    const { trial, alone } = trialOf(left({ trial: culprit.id }), left({ bucket: 1 }));
    expect(alone([...some(2), ...some(2, 1)])).toBe(0);
    for (const isCharged of [true, false]) {
      expect([alone([culprit]), trial.isCharged(culprit)]).toEqual([1, isCharged]);
      if (isCharged) expect(trial.charge(culprit).blame).toBe('message');
      trial.clear(culprit);
    }
  });

  it('a message that this process has tried itself, and survived, is not charged', async () => {
    const message = stored();
    const { relay } = await takenOver([message]);
    await relay.readOnce();
    await turn();
    relay.gained([left({ trial: message.id, former: null })]);
    expect(relay.trial.isCharged(message)).toBe(false);
  });

  it('one that another process has tried is, also where the unlocker has cleared whose lease it was', () => {
    const message = stored();
    expect(trialOf(left({ trial: message.id, former: null })).trial.isCharged(message)).toBe(true);
  });

  async function takenOver(ready: OutboxMessage[], crashes = UNCLEAN_ENDS): Promise<RelayUnderTest> {
    const under = createTransportRelay({ batchSize: BATCH, batchesInFlight: IN_FLIGHT });
    Object.assign(under.store.leases.get(0) as object, { crashes });
    under.store.ready = ready;
    await under.leases.runOnce();
    return under;
  }

  it('each one is named before it goes, and nobody before others go together', async () => {
    const messages = some(SUSPECTS + 2 * BATCH);
    const under = await takenOver([...messages]);
    const { store, transport, relay, clock } = under;
    const seen: (string | null)[] = [];
    transport.behave = ({ id }) => {
      seen.push(`${id} under ${store.leases.get(0)?.trial}`);
      return { ok: true };
    };
    while (store.ready.length > 0) {
      await relay.readOnce();
      await turn();
      await clock.advance(1); // for the settler
      await turn();
    }
    expect(seen).toEqual(messages.map(({ id }, n) => `${id} under ${n < SUSPECTS ? id : null}`));
    expect(transport.published).toHaveLength(messages.length);
    expect(under.hooks.of('warning')).toHaveLength(1);
  });

  it('nothing goes while the name cannot be written; it is read again, and nobody is charged', async () => {
    const { store, relay, clock, transport } = await takenOver([stored()]);
    store.noteTrial = () => Promise.reject(new Error('the connection is gone'));
    await relay.readOnce();
    await turn();
    await clock.advance(1_000);
    await turn();
    expect(transport.attempted).toEqual([]);
    expect([relay.reader.known.size, relay.room.held]).toEqual([0, 0]);
  });

  it.each([
    [UNCLEAN_ENDS - 1, SUSPECTS],
    [UNCLEAN_ENDS - 2, SUSPECTS + 2 * BATCH],
  ])('after %i ends memory holds %i messages: no more than the next owner may have to try', async (crashes, most) => {
    const under = await takenOver([], crashes);
    expect(under.relay.room.left).toBe(most);
    expect(under.hooks.of('warning')).toEqual([]);
  });
});
