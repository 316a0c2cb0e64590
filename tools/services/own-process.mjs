// A server that this repository starts by itself: a child whose output goes to a file, and that ends with us.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const START_TIMEOUT = 60_000;
const STOP_TIMEOUT = 15_000;

export function startProcess(command, args, logFile) {
  const log = openSync(logFile, 'a');
  const server = spawn(command, args, { detached: true, stdio: ['ignore', log, log] });
  closeSync(log);
  const kill = () => server.kill('SIGKILL');
  process.once('exit', kill);
  server.once('exit', () => process.off('exit', kill));
  return server;
}

/** Resolves when `probe` does; throws when the server ends before, or takes longer than a minute. */
export async function whenReady(name, server, probe) {
  const deadline = Date.now() + START_TIMEOUT;
  for (;;) {
    const error = await probe().then(
      () => undefined,
      (reason) => reason,
    );
    if (error === undefined) return;
    if (server.exitCode !== null) throw new Error(`${name} ended with code ${server.exitCode}`);
    if (Date.now() > deadline) throw new Error(`${name} was not ready after ${START_TIMEOUT} ms: ${error.message}`);
    await delay(100);
  }
}

/** With `signal`; after 15 s with SIGKILL. */
export async function endProcess(server, signal) {
  if (server?.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.kill(signal);
  const harder = setTimeout(() => server.kill('SIGKILL'), STOP_TIMEOUT);
  await ended;
  clearTimeout(harder);
}
