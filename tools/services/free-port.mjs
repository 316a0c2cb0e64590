import { once } from 'node:events';
import { createServer } from 'node:net';
import { randomInt } from 'node:crypto';

/**
 * For outgoing connections Linux takes ports from 32768 on, macOS and Windows from 49152 on. A server whose port lies
 * among them loses it to any connection, between this probe and its start, or while a test has it down.
 */
const LOWEST = 10_000;
const HIGHEST = 32_767;
const TRIES = 1_000;
const givenOut = new Set();

/** Free on loopback, and never given out before by this process. */
export async function freePort() {
  for (let n = 0; n < TRIES; n += 1) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if (givenOut.has(port) || !(await isFree(port))) continue;
    givenOut.add(port);
    return port;
  }
  throw new Error(`none of ${TRIES} ports between ${LOWEST} and ${HIGHEST} is free on 127.0.0.1`);
}

async function isFree(port) {
  const probe = createServer().listen(port, '127.0.0.1');
  try {
    await once(probe, 'listening');
  } catch (error) {
    if (error.code === 'EADDRINUSE' || error.code === 'EACCES') return false;
    throw error;
  }
  probe.close();
  await once(probe, 'close');
  return true;
}
