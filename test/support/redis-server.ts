import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../../bench/support/own-server.js';
import { describeUnlessMissing } from './services.js';
import { until } from './until.js';

const isInstalled = spawnSync('redis-server', ['--version']).status === 0;

/** `describe` for tests that start servers of their own. */
export const describeWithOwnRedis = (name: string, body: () => void): void =>
  describeUnlessMissing(isInstalled ? [] : ['redis'], name, body);

/** A Redis of its own, for tests that kill the server, or change what is true of all of it. */
export class OwnRedis {
  private process: ChildProcess | undefined;
  private observer: Redis | undefined;

  private constructor(
    readonly port: number,
    private readonly folder: string,
    private readonly arguments_: readonly string[],
  ) {}

  static async start(config: Readonly<Record<string, string>> = {}, ...more: string[]): Promise<OwnRedis> {
    const [port, folder] = [await freePort(), await mkdtemp(join(tmpdir(), 'outbox-redis-'))];
    const all = {
      bind: '127.0.0.1',
      port: String(port),
      dir: folder,
      save: '""',
      'repl-diskless-sync-delay': '0',
      ...config,
    };
    const file = join(folder, 'redis.conf');
    await writeFile(
      file,
      Object.entries(all)
        .map(([name, value]) => `${name} ${value}\n`)
        .join(''),
    );
    const server = new OwnRedis(port, folder, [file, ...more]);
    await server.start();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** To look and to change things with; made when first asked for. */
  get client(): Redis {
    return (this.observer ??= new Redis(this.url, { maxRetriesPerRequest: null }).on('error', () => undefined));
  }

  async start(): Promise<void> {
    const child = spawn('redis-server', this.arguments_, { stdio: 'ignore' });
    this.process = child;
    const kill = (): void => void child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    await until(() => listens(this.port));
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.process?.kill(signal);
  }

  /** SIGKILL: nothing is written any more. */
  async kill(): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  async remove(): Promise<void> {
    this.observer?.disconnect();
    await this.kill();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const connected = once(socket, 'connect').then(
    () => true,
    () => false,
  );
  return connected.finally(() => socket.destroy());
}
