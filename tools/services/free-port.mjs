import { once } from 'node:events';
import { createServer } from 'node:net';

/** Never the same one twice: the next that is free may be the one that was given out and is not in use yet. */
export async function freePort() {
  for (;;) {
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const { port } = probe.address();
    probe.close();
    await once(probe, 'close');
    if (givenOut.has(port)) continue;
    givenOut.add(port);
    return port;
  }
}
const givenOut = new Set();
