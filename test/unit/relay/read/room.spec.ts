import { Room } from '../../../../lib/relay/read/room.js';
import { stored } from '../../../support/transport-relay.js';

const MIB = 2 ** 20;
const BOUNDS = { batchSize: 500, batchesInFlight: 4, batchBytes: 4 * MIB };
const small = () => stored({ body: 'x'.repeat(1_000) });
/** As a read returns a large one: its payload is still in the database. */
const large = (bytes: number) => stored({ body: null, unread: bytes });

describe('the room of a relay', () => {
  it('is a number of messages while they are small, and of bytes when they are not', () => {
    const room = new Room(BOUNDS);
    room.adapt([small(), small()], false);
    expect(room.left).toBe(3_000);
    room.adapt([stored({ body: 'x'.repeat(60_000) })], false);
    expect(room.left).toBe(Math.floor((6 * 4 * MIB) / 60_000));
  });

  it('counts payloads that a read left in the database', () => {
    const ledger = { held: 0 };
    const room = new Room(BOUNDS, ledger);
    room.adapt([large(MIB), large(MIB)], true);
    expect(room.left).toBe(24);
    ledger.held = 20;
    expect(room.left).toBe(4);
  });

  it('J11: counts headers and options as payloads', () => {
    const room = new Room(BOUNDS);
    room.adapt(
      [stored({ body: 'x'.repeat(1_000), headersJson: 'h'.repeat(130_000), optionsJson: 'o'.repeat(60_000) })],
      true,
    );
    expect(room.left).toBe(Math.floor((24 * MIB) / 191_000));
  });

  it('goes by the mean of what was read, not by one of them', () => {
    const room = new Room(BOUNDS);
    room.adapt([large(MIB), small(), small(), small()], true);
    expect(room.left).toBe(Math.floor((24 * MIB) / ((MIB + 3_000) / 4)));
  });

  it('has one for each batch, however large they are', () => {
    const room = new Room(BOUNDS);
    room.adapt([large(64 * MIB), large(4 * MIB)], true);
    expect(room.left).toBe(6);
  });

  it('grows again when they become small, and learns nothing from a read of none', () => {
    const room = new Room(BOUNDS);
    room.adapt([large(MIB)], true);
    room.adapt([], false);
    expect(room.left).toBe(24);
    for (let i = 0; i < 100; i += 1) room.adapt([small()], true);
    expect(room.left).toBe(3_000);
  });
});
