import type { Socket } from 'node:net';

/**
 * Clients write by themselves, long after they were told to, and in a process that stood still before the timer of a
 * deadline fires. `mayWrite` has the last word before the bytes are the kernel's; who says no has ended the connection.
 *
 * @returns asks no more
 */
export function askBeforeWrites(socket: Socket, mayWrite: () => boolean): () => void {
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  const asking = (...args: unknown[]): boolean => mayWrite() && write(...args);
  socket.write = asking;
  return () => {
    if (socket.write === asking) socket.write = write;
  };
}
