import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../bench/support/own-server.js';

/** Where Linux packages put the programs; the ones in `sbin` drop root's rights and would not see our directory. */
const BIN = '/usr/lib/rabbitmq/bin';
const START_TIMEOUT = 60_000;

/** A RabbitMQ of its own, for tests that kill the broker or take its memory. Takes about ten seconds to start. */
export class RabbitMqNode {
  private process: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly directory: string,
    private readonly environment: NodeJS.ProcessEnv,
  ) {}

  static get isInstalled(): boolean {
    return existsSync(join(BIN, 'rabbitmq-server'));
  }

  static async start(): Promise<RabbitMqNode> {
    const [port, dist] = [await freePort(), await freePort()];
    const directory = await mkdtemp(join(tmpdir(), 'outbox-rabbitmq-'));
    const plugins = join(directory, 'plugins');
    await writeFile(plugins, '[].');
    const node = new RabbitMqNode(port, directory, {
      ...process.env,
      HOME: directory,
      ERL_CRASH_DUMP: join(directory, 'erl_crash.dump'),
      RABBITMQ_NODENAME: `outbox${randomBytes(4).toString('hex')}@localhost`,
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: String(port),
      RABBITMQ_DIST_PORT: String(dist),
      RABBITMQ_MNESIA_BASE: join(directory, 'mnesia'),
      RABBITMQ_LOG_BASE: join(directory, 'log'),
      RABBITMQ_ENABLED_PLUGINS_FILE: plugins,
      RABBITMQ_CONFIG_FILE: join(directory, 'none'),
    });
    await node.start();
    return node;
  }

  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    // A process group of its own, so that the virtual machine dies with the script that starts it.
    const child = spawn(join(BIN, 'rabbitmq-server'), { env: this.environment, detached: true, stdio: 'ignore' });
    this.process = child;
    // Whatever ends this process, the node must not outlive it.
    const kill = (): void => killGroup(child);
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    for (const deadline = Date.now() + START_TIMEOUT; !(await answers(this.port));) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('RabbitMQ did not start');
    }
  }

  /** SIGKILL: no goodbye, nothing flushed. */
  async kill(): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (child?.pid === undefined || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    killGroup(child);
    await exited;
  }

  async ctl(...args: string[]): Promise<void> {
    await promisify(execFile)(join(BIN, 'rabbitmqctl'), ['-n', this.environment['RABBITMQ_NODENAME']!, ...args], {
      env: this.environment,
    });
  }

  async remove(): Promise<void> {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // Gone already.
  }
}

/** One try of up to 200 ms. RabbitMQ listens before it can be used, so a protocol header must be answered. */
async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    return await new Promise((resolve) => {
      socket.once('connect', () => socket.write(Buffer.from('AMQP\0\0\t\u0001', 'latin1')));
      socket.once('data', () => resolve(true));
      socket.on('error', () => {});
      setTimeout(resolve, 200, false);
    });
  } finally {
    socket.destroy();
  }
}
