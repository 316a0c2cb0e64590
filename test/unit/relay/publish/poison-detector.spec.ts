import type { OutboxMessage } from '../../../../lib/outbox-message.js';
import { PUBLISHED, type PublishResult } from '../../../../lib/transports/transport.js';
import type { ParkEntry } from '../../../../lib/store/ready-store.js';
import { createTransportRelay, gate, stored, turn, type RelayUnderTest } from '../../../support/transport-relay.js';

const CRASHES = 3;
const ids = (messages: readonly { id: string }[]): string[] => messages.map(({ id }) => id);

/** One bucket whose former owners disappeared one after the other, the last one with `trial`. */
async function suspected(
  trial: string | null,
  ready: OutboxMessage[],
): Promise<RelayUnderTest & { parked: ParkEntry[] }> {
  const under = createTransportRelay({}, undefined, 1);
  Object.assign(under.store.leases.get(0) as object, { crashes: CRASHES, trial });
  under.store.ready = ready;
  const parked: ParkEntry[] = [];
  const { park } = under.store;
  under.store.park = async (owner, leases, entries) => {
    parked.push(...entries);
    return park(owner, leases, entries);
  };
  await under.leases.runOnce();
  return { ...under, parked };
}
const trialOf = ({ store }: RelayUnderTest): string | null => store.leases.get(0)?.trial ?? null;

describe('after owner after owner of a bucket disappeared', () => {
  it('its messages go one by one, each noted before it goes', async () => {
    const [first, second] = [stored(), stored()];
    const under = await suspected(null, [first, second]);
    const out = gate<PublishResult>();
    under.transport.behave = () => out.opened;
    await under.relay.readOnce();
    await turn();
    expect(ids(under.transport.attempted)).toEqual([first.id]);
    expect(trialOf(under)).toBe(first.id);
    out.open(PUBLISHED);
    await turn();
    expect(ids(under.transport.published)).toEqual(ids([first, second]));
    expect(trialOf(under)).toBe(second.id);
    expect(under.hooks.of('warning')).toHaveLength(1);
  });

  it('the one with which the last owner disappeared is charged when its turn comes, whatever goes before it', async () => {
    const [other, culprit] = [stored(), stored()];
    const under = await suspected(culprit.id, [other, culprit]);
    await under.relay.readOnce();
    await turn();
    expect(ids(under.transport.attempted)).toEqual([other.id]);
    expect(under.parked).toMatchObject([{ id: culprit.id, attempts: 1, state: 'waiting' }]);
    expect(trialOf(under)).toBeNull();
  });

  it('a message that this process has tried itself, and survived, is not charged', async () => {
    const message = stored();
    const under = await suspected(null, [message]);
    under.transport.behave = () => ({ ok: false, blame: 'message', error: new Error('no') });
    await under.relay.readOnce();
    await turn();
    expect(trialOf(under)).toBeNull();
    const { poison } = under.relay.batcher;
    poison.gained([{ transport: 0, bucket: 0, epoch: '2', crashes: CRASHES, trial: message.id }]);
    expect(await poison.begin(message)).toBe('go');
  });

  it('nothing goes while the note cannot be written; it is read again, and nobody is charged', async () => {
    const message = stored();
    const under = await suspected(null, [message]);
    under.store.noteTrial = async () => {
      throw new Error('the connection is gone');
    };
    await under.relay.readOnce();
    await turn();
    await under.clock.advance(1_000);
    await turn();
    expect(under.transport.attempted).toEqual([]);
    expect(under.parked).toEqual([]);
    expect(under.relay.reader.known.size).toBe(0);
    expect(under.relay.room.held).toBe(0);
  });

  it('they go together again when the lease has lasted', async () => {
    const under = await suspected(null, []);
    expect(under.relay.delivery.poison.needed(0)).toBe(true);
    under.leases.renewedAt = -Infinity;
    await under.clock.advance(under.options.lease + 1);
    await under.leases.runOnce();
    expect(under.relay.delivery.poison.needed(0)).toBe(false);
  });
});
