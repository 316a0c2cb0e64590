import type { Socket } from 'node:net';

/** Node's own handle of a TCP connection, as far as it is needed here. */
interface TcpHandle {
  close(done?: () => void): void;
  /** 0, or why it could not. */
  reset(done?: () => void): number;
}

/**
 * Destroys the socket, and what waits in the kernel's buffer with it: a close would have that sent. Below TLS there is a
 * connection that can be reset, too, but Node has no way to it but a handle that no version promises; without it, it is closed.
 *
 * @param error for who does not notice that a socket is destroyed without one
 */
export function cutSocket(socket: Socket, error?: Error): void {
  if (socket.destroyed) return;
  cut(socket);
  if (error !== undefined && socket.listenerCount('error') > 0) socket.emit('error', error);
}

function cut(socket: Socket): void {
  // A reset of an ended socket would leak the handle.
  if (socket.connecting || socket.writableEnded) return void socket.destroy();
  try {
    socket.resetAndDestroy();
  } catch {
    resetOnClose(socket);
    socket.destroy();
  }
}

function resetOnClose(socket: Socket): void {
  const tcp = (socket as { _handle?: { _parent?: Partial<TcpHandle> } })._handle?._parent;
  if (typeof tcp?.reset !== 'function' || typeof tcp.close !== 'function') return;
  const { close, reset } = tcp as TcpHandle;
  tcp.close = (done) => {
    if (reset.call(tcp, done) !== 0) close.call(tcp, done);
  };
}
