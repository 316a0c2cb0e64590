import { Socket } from 'node:net';
import { askBeforeWrites } from '../../../lib/transports/ask-before-writes.js';

describe('asking before a socket is written to', () => {
  function watched() {
    const socket = new Socket();
    const written: unknown[] = [];
    const original = ((bytes: string) => written.push(bytes) > 0) as typeof socket.write;
    socket.write = original;
    return { socket, written, original };
  }

  it('asks all that are there, and none that left, in whichever order they came and went', () => {
    const { socket, written, original } = watched();
    const [first, second] = [jest.fn(() => true), jest.fn(() => true)];
    const leave = askBeforeWrites(socket, first);
    const { write } = socket;
    const leaveToo = askBeforeWrites(socket, second);
    expect(socket.write).toBe(write); // one layer for all
    socket.write('a');
    leave();
    socket.write('b');
    second.mockReturnValue(false);
    expect(socket.write('c')).toBe(false);
    leaveToo();
    socket.write('d');
    expect([written, first.mock.calls.length, second.mock.calls.length]).toEqual([['a', 'b', 'd'], 1, 3]);
    expect(socket.write).toBe(original);
  });

  it('leaves what somebody else put over it, and asks there again', () => {
    const { socket, written } = watched();
    const leave = askBeforeWrites(socket, () => false);
    const below = socket.write.bind(socket) as (bytes: string) => boolean;
    const theirs = ((bytes: string) => below(`${bytes}!`)) as typeof socket.write;
    socket.write = theirs;
    leave();
    leave();
    expect(socket.write('a')).toBe(true);
    const again = jest.fn(() => true);
    const leaveAgain = askBeforeWrites(socket, again);
    socket.write('b');
    expect([written, again.mock.calls.length]).toEqual([['a!', 'b!'], 1]);
    leaveAgain();
    expect(socket.write).toBe(theirs);
  });
});
