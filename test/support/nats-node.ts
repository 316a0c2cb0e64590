import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../bench/support/own-server.js';
import { until } from './until.js';

const PROGRAM = 'nats-server';
const START_TIMEOUT = 60_000;

/** A server of its own with JetStream, for tests that kill it, or need its configuration. */
export class NatsNode {
  private process: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly directory: string,
  ) {}

  static get isInstalled(): boolean {
    return spawnSync(PROGRAM, ['--version']).error === undefined;
  }

  /** @param jetstream limits of JetStream, as the configuration of the server has them; `rest`: accounts, TLS and others */
  static async start(rest = '', jetstream = ''): Promise<NatsNode> {
    const node = new NatsNode(await freePort(), await mkdtemp(join(tmpdir(), 'outbox-nats-')));
    await node.configure(rest, jetstream);
    await node.start();
    return node;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** For the next start. */
  async configure(rest: string, jetstream = ''): Promise<void> {
    const store = JSON.stringify(join(this.directory, 'store'));
    const config = `listen: "${this.address}"\njetstream { store_dir: ${store}\n${jetstream} }\n${rest}\n`;
    await writeFile(join(this.directory, 'server.conf'), config);
  }

  async start(): Promise<void> {
    const child = spawn(PROGRAM, ['-c', join(this.directory, 'server.conf')], { stdio: 'ignore' });
    this.process = child;
    // Whatever ends this process, the server must not outlive it.
    const kill = (): void => void child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    for (const deadline = Date.now() + START_TIMEOUT; !(await answers(this.port));)
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('The NATS server did not start.');
  }

  /** SIGKILL: no goodbye. */
  async kill(): Promise<void> {
    await this.end('SIGKILL');
  }

  /** As an operator does. */
  async stop(): Promise<void> {
    await this.end('SIGTERM');
  }

  /** It answers nothing until it goes on. */
  async pause(): Promise<void> {
    const child = this.process!;
    child.kill('SIGSTOP');
    const state = (): string => spawnSync('ps', ['-o', 'state=', '-p', String(child.pid)]).stdout.toString();
    await until(() => state().startsWith('T'));
  }
  goOn(): void {
    this.process?.kill('SIGCONT');
  }

  async remove(): Promise<void> {
    this.goOn();
    await this.kill();
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }
}

/** One try of up to 200 ms: a server says who it is. */
async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    return await new Promise((resolve) => {
      socket.once('data', () => resolve(true));
      socket.on('error', () => {});
      setTimeout(resolve, 200, false);
    });
  } finally {
    socket.destroy();
  }
}
