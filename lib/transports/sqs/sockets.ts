import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { askBeforeWrites } from '../ask-before-writes.js';
import { cutSocket } from '../cut-socket.js';

/** The sockets of a client that the transport made. */
export interface SocketGuard {
  /** For the configuration of the client. */
  readonly requestHandler: object;
  /** Sockets that are destroyed meanwhile are cut, so that the kernel sends nothing more of what it holds. */
  cutting(work: () => void): void;
}

/** @returns `undefined`: the application has a handler or agents of its own, and their sockets are its own, too */
export function guardSockets(given: unknown, maxSockets: number, mayWrite: () => boolean): SocketGuard | undefined {
  const options = (given ?? {}) as { handle?: unknown; httpAgent?: unknown; httpsAgent?: unknown };
  if (typeof options.handle === 'function' || isAgent(options.httpAgent) || isAgent(options.httpsAgent))
    return undefined;
  let isCutting = false;
  const guard = (socket: Socket): void => {
    askBeforeWrites(socket, mayWrite);
    // What was written before that is held back until now, and is sent by a later listener of this.
    socket.once('connect', mayWrite);
    const { destroy } = socket;
    let isCut = false;
    socket.destroy = (error) => {
      if (!isCutting || isCut) return destroy.call(socket, error);
      isCut = true;
      cutSocket(socket);
      return socket;
    };
  };
  const settings = { keepAlive: true, maxSockets };
  return {
    requestHandler: {
      ...options,
      httpAgent: guarded(new http.Agent({ ...settings, ...(options.httpAgent as object) }), guard),
      httpsAgent: guarded(new https.Agent({ ...settings, ...(options.httpsAgent as object) }), guard),
    },
    cutting(work) {
      isCutting = true;
      try {
        work();
      } finally {
        isCutting = false;
      }
    },
  };
}

function isAgent(agent: unknown): boolean {
  return typeof (agent as { destroy?: unknown } | undefined)?.destroy === 'function';
}

function guarded(agent: http.Agent, guard: (socket: Socket) => void): http.Agent {
  const made = agent as unknown as { createConnection(...args: unknown[]): Socket };
  const { createConnection } = made;
  made.createConnection = (...args) => {
    const socket = createConnection.apply(made, args);
    guard(socket);
    return socket;
  };
  return agent;
}
