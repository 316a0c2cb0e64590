import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { plainEnvironment } from '../package/consumer.js';
import { until, untilDone } from '../support/until.js';
import { blocksIn, type Block } from './documents.js';

export type ModuleType = 'module' | 'commonjs';

const ofReadme = (language: string): Block[] =>
  blocksIn(language, '').filter(({ place }) => place.startsWith('README.md:'));

/** The files of the README as a reader copies them, by name; a comment in them says what is different in CommonJS. */
export function copiedFiles(type: ModuleType): Record<string, string> {
  const files = ofReadme('ts').flatMap(({ file, text }) => (file === undefined ? [] : [[file, text] as const]));
  const inCommonJs = (text: string): string => text.replace(/'[^']*'; \/\/ CommonJS: ('[^']*')$/gm, '$1;');
  return Object.fromEntries(files.map(([file, text]) => [file, type === 'module' ? text : inCommonJs(text)]));
}

/** Its line that installs everything into an application of this Nest. */
export function installLine(nest: 11 | 12): string[] {
  const lines = ofReadme('bash').map(({ text }) => text.trim().split(' '));
  const found = lines.find((line) => line.includes(nest === 11 ? '@nestjs/typeorm@11' : '@nestjs/typeorm'));
  return found?.slice(1) ?? [];
}

/** Its `curl`, with the answer, and the lines of the log that it promises, as far as they are written out. */
export function promised(): { path: string; body: string; answer: string; log: string[] } {
  const texts = ofReadme('text').map(({ text }) => text);
  const request = texts.map((text) => /^\$ curl -d (\S+) localhost:3000(\S+)\n(.+)\n$/.exec(text)).find(Boolean);
  const [, body, path, answer] = request as unknown as [string, string, string, string];
  const log = texts.filter((text) => text.startsWith('LOG ')).flatMap((text) => text.trim().split('\n'));
  return { path, body, answer, log: log.map((line) => line.replace(/ …$/, '')) };
}

export interface Ran {
  readonly answer: string;
  readonly log: string;
  readonly stopped: boolean;
}

/** Starts the application, sends the request of the README, waits for the log that it promises, and stops it. */
export async function runCopied(folder: string, url: string, lines = promised().log): Promise<Ran> {
  const { path, body } = promised();
  const port = await freePort();
  const env = { ...plainEnvironment(), DATABASE_URL: url, PORT: String(port), NO_COLOR: '1' };
  const app = spawn(process.execPath, ['dist/main.js'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(app, 'exit');
  let log = '';
  for (const stream of [app.stdout, app.stderr]) stream.setEncoding('utf8').on('data', (part) => (log += part));
  const says = (text: string): Promise<void> =>
    until(() => {
      if (app.exitCode !== null) throw new Error(log);
      return log.includes(text);
    });
  try {
    await says('successfully started');
    const type = { 'content-type': 'application/x-www-form-urlencoded' }; // as `curl -d` sends it
    // Nest says so before it listens.
    const response = await untilDone(() =>
      fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body, headers: type }),
    );
    const answer = await response.text();
    for (const line of lines) await says(line);
    app.kill('SIGTERM');
    await ended;
    return { answer, log, stopped: log.includes('[Outbox] stopped') };
  } finally {
    app.kill('SIGKILL');
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
