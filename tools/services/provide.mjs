import { existsSync } from 'node:fs';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { containers } from './containers.mjs';

/**
 * Finds or starts one service. Order of choice: the URL in its environment variable; a server of our own, in memory where it can
 * be, which no other program uses; one on loopback that lets a default login in; Docker through testcontainers.
 * Resolves to `{ url, from, stop }`, or to `{ missing }` with the reasons. A URL that was asked for and does not answer is an error.
 */
export async function provide(service) {
  const asked = process.env[service.variable];
  if (asked) {
    await service.probe(asked).catch((error) => {
      throw new Error(`${service.variable} is set, but no ${service.name} answers there: ${reasonOf(error)}`);
    });
    return { url: asked, from: service.variable, stop: nothingToStop };
  }
  const missing = [];
  for (const [from, attempt] of choices(service)) {
    try {
      const started = await attempt();
      return { url: started.url, from, stop: () => started.stop?.() };
    } catch (error) {
      missing.push(`${from}: ${reasonOf(error)}`);
    }
  }
  return { missing };
}

function choices(service) {
  return [
    ...(service.own === undefined ? [] : [['own', () => service.own()]]),
    ['loopback', () => service.probe(service.local).then(() => ({ url: service.local }))],
    ['Docker', () => startContainer(service)],
  ];
}

async function startContainer(service) {
  if (!(await dockerAnswers())) throw new Error('no engine');
  const started = await service.container(await containers());
  const deadline = Date.now() + 60_000;
  for (;;) {
    const error = await service.probe(started.url).then(
      () => undefined,
      (reason) => reason,
    );
    if (error === undefined) return started;
    if (Date.now() > deadline) {
      await started.stop();
      throw error;
    }
    await delay(250);
  }
}

/** Asks the engine itself: an installed client proves nothing. */
async function dockerAnswers() {
  const host = process.env.DOCKER_HOST;
  if (host !== undefined && !host.startsWith('unix://')) return pings(new URL(host));
  const socket = host?.slice('unix://'.length) ?? '/var/run/docker.sock';
  return existsSync(socket) && pings({ path: socket });
}

function pings({ path, hostname, port }) {
  return new Promise((resolve) => {
    const connection = createConnection(path === undefined ? { host: hostname, port: Number(port) || 2375 } : { path });
    const answer = (up) => {
      connection.destroy();
      resolve(up);
    };
    connection.setTimeout(2_000, () => answer(false));
    connection.once('error', () => answer(false));
    connection.once('connect', () =>
      connection.write('GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n'),
    );
    connection.once('data', (chunk) => answer(chunk.toString().startsWith('HTTP/1.1 200')));
  });
}

/** One line, without what a login may have held. */
function reasonOf(error) {
  const text = error?.code && !error.message ? String(error.code) : String(error?.message || error?.code || error);
  return text
    .split('\n')[0]
    .replace(/\/\/[^@/\s]*@/g, '//')
    .slice(0, 200);
}

async function nothingToStop() {}
