import type { OutboxMessage } from '../../../../lib/outbox-message.js';
import { PUBLISHED, type PublishResult } from '../../../../lib/transports/transport.js';
import type { ParkEntry } from '../../../../lib/store/ready-store.js';
import { createTransportRelay, gate, stored, turn, type RelayUnderTest } from '../../../support/transport-relay.js';

const CRASHES = 3;
const BATCH = 2;
const IN_FLIGHT = 2;
/** What its former owner may have had in memory. */
const SUSPECTS = BATCH * IN_FLIGHT;
const ids = (messages: readonly { id: string }[]): string[] => messages.map(({ id }) => id);
const some = (count: number, bucket = 0): OutboxMessage[] => Array.from({ length: count }, () => stored({ bucket }));

interface Left {
  readonly crashes?: number;
  readonly trial?: string | null;
  readonly buckets?: number;
}

/** Buckets whose former owners disappeared one after the other. */
async function takenOver(
  ready: OutboxMessage[],
  { crashes = CRASHES, trial = null, buckets = 1 }: Left = {},
): Promise<RelayUnderTest & { parked: ParkEntry[] }> {
  const under = createTransportRelay({ batchSize: BATCH, batchesInFlight: IN_FLIGHT }, undefined, buckets);
  for (const lease of under.store.leases.values()) Object.assign(lease, { crashes });
  Object.assign(under.store.leases.get(0) as object, { trial });
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

/** Reads as long as something comes. @returns what went together, in order */
async function drained(under: RelayUnderTest): Promise<string[][]> {
  const { transport, relay, store, clock } = under;
  const batches: string[][] = [];
  const publish = transport.publish.bind(transport);
  transport.publish = (batch, context) => {
    batches.push(ids(batch));
    return publish(batch, context);
  };
  while (store.ready.length > 0) {
    await relay.readOnce();
    await turn();
    await clock.advance(1); // for the settler
    await turn();
  }
  return batches;
}
const trialOf = ({ store }: RelayUnderTest): string | null => store.leases.get(0)?.trial ?? null;
const singly = (batches: readonly string[][]): number => batches.filter(({ length }) => length === 1).length;

describe('after owner after owner of a bucket disappeared', () => {
  it('what the last one may have had in memory goes one by one, each noted before it goes, and what comes after it together', async () => {
    const [first, second, ...others] = some(SUSPECTS + 2 * BATCH) as [OutboxMessage, OutboxMessage];
    const under = await takenOver([first, second, ...others]);
    const out = gate<PublishResult>();
    under.transport.behave = () => out.opened;
    await under.relay.readOnce();
    await turn();
    expect(ids(under.transport.attempted)).toEqual([first.id]);
    expect(trialOf(under)).toBe(first.id);
    expect(under.relay.flight.suspects.size).toBeGreaterThan(0);
    const notes: (string | null)[] = [];
    const { noteTrial } = under.store;
    under.store.noteTrial = (owner, lease, id) => {
      notes.push(id);
      return noteTrial(owner, lease, id);
    };
    out.open(PUBLISHED);
    const batches = await drained(under);
    const rest = ids([second, ...others]);
    expect(batches.slice(0, SUSPECTS - 1)).toEqual(rest.slice(0, SUSPECTS - 1).map((id) => [id]));
    expect(batches.flat()).toEqual(rest);
    expect(Math.max(...batches.map(({ length }) => length))).toBe(BATCH);
    expect(notes).toEqual([...rest.slice(0, SUSPECTS - 1), null]); // before others go together it names none
    expect(under.relay.flight.suspects.size).toBe(0);
    expect(under.hooks.of('warning')).toHaveLength(1);
  });

  it('those of all buckets of one owner are no more than it had', async () => {
    const each = [0, 1, 2].map((bucket) => some(SUSPECTS, bucket));
    const under = await takenOver([...each.flat()], { buckets: 3 });
    expect(singly(await drained(under))).toBe(SUSPECTS);
  });

  it('the one with which the last owner disappeared is charged when its turn comes, and nothing else is suspected', async () => {
    const [first, second, culprit, last] = some(4) as [OutboxMessage, OutboxMessage, OutboxMessage, OutboxMessage];
    const under = await takenOver([first, second, culprit, last], { trial: culprit.id });
    expect(await drained(under)).toEqual([[first.id, second.id], [last.id]]);
    expect(under.parked).toMatchObject([{ id: culprit.id, attempts: 1, state: 'waiting' }]);
    expect(trialOf(under)).toBeNull();
    const again = stored({ id: culprit.id, attempts: 1, parkedId: '1', parkedState: 'waiting' });
    under.relay.accept([again]);
    await turn();
    expect(trialOf(under)).toBe(culprit.id); // by itself, and not charged with the same end once more
    expect(under.transport.attempted.at(-1)?.id).toBe(culprit.id);
  });

  it('a message that this process has tried itself, and survived, is not charged', async () => {
    const message = stored();
    const under = await takenOver([message]);
    under.transport.behave = () => ({ ok: false, blame: 'message', error: new Error('no') });
    await under.relay.readOnce();
    await turn();
    expect(trialOf(under)).toBeNull();
    const { poison } = under.relay.batcher;
    poison.gained([{ transport: 0, bucket: 0, epoch: '2', crashes: CRASHES, trial: message.id }]);
    expect(poison.left.size).toBe(0);
  });

  it('nothing goes while the note cannot be written; it is read again, and nobody is charged', async () => {
    const message = stored();
    const under = await takenOver([message]);
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

  it('what comes when both tables were found empty goes together', async () => {
    const under = await takenOver([]);
    await under.relay.readOnce();
    await under.relay.parkedOnce();
    under.store.ready = some(2 * BATCH);
    expect(singly(await drained(under))).toBe(0);
  });

  it.each([
    [CRASHES - 1, SUSPECTS],
    [CRASHES - 2, SUSPECTS + 2 * BATCH],
  ])('after %i ends memory holds %i messages: no more than the next owner may have to try', async (crashes, most) => {
    const under = await takenOver([], { crashes });
    expect(under.relay.room.left).toBe(most);
    expect(under.hooks.of('warning')).toEqual([]);
  });
});
