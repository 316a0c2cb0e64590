import type { Socket } from 'node:net';

type MayWrite = () => boolean;
interface Layer {
  readonly asked: Set<MayWrite>;
  readonly below: Socket['write'];
}

/** By the `write` that asks. */
const layers = new WeakMap<Socket['write'], Layer>();

/**
 * Clients write by themselves, long after they were told to, and in a process that stood still before the timer of a
 * deadline fires. `mayWrite` has the last word before the bytes are the kernel's; who says no has ended the connection.
 * A socket that the application keeps through many connects of ours is wrapped once for all that ask.
 *
 * @returns asks no more; the last one takes the wrapper away, unless somebody else's lies over it
 */
export function askBeforeWrites(socket: Socket, mayWrite: MayWrite): () => void {
  const { asked, below } = layers.get(socket.write) ?? wrap(socket);
  const asking = socket.write;
  asked.add(mayWrite);
  return () => {
    asked.delete(mayWrite);
    if (asked.size === 0 && socket.write === asking) socket.write = below;
  };
}

function wrap(socket: Socket): Layer {
  const layer: Layer = { asked: new Set(), below: socket.write };
  const write = layer.below.bind(socket) as (...args: unknown[]) => boolean;
  socket.write = (...args: unknown[]): boolean => {
    for (const mayWrite of layer.asked) if (!mayWrite()) return false;
    return write(...args);
  };
  layers.set(socket.write, layer);
  return layer;
}
