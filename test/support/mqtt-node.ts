import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, makeFolder, onceAtExit, UNPRIVILEGED } from '../../bench/support/own-server.js';

/** Where Linux packages put it; `sbin` is not in everybody's path. */
const PROGRAM = '/usr/sbin/mosquitto';

/** A Mosquitto of its own, for tests of its settings, and for those that kill it. */
export class MqttNode {
  private process: ChildProcess | undefined;
  private readonly removed: () => void;

  private constructor(
    readonly port: number,
    readonly folder: string,
  ) {
    this.removed = onceAtExit(() => {
      this.process?.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    });
  }

  static get isInstalled(): boolean {
    return existsSync(PROGRAM);
  }

  static version(): string {
    return /version ([\d.]+)/.exec(String(spawnSync(PROGRAM, ['-h']).stdout))?.[1] ?? '';
  }

  /** @param settings lines of `mosquitto.conf`; `%` is the folder of the server */
  static async start(
    settings: readonly string[] = [],
    users: Readonly<Record<string, string>> = {},
    files: Readonly<Record<string, string>> = {},
  ): Promise<MqttNode> {
    const node = new MqttNode(await freePort(), makeFolder('mosquitto'));
    for (const [name, text] of Object.entries(files)) node.write(name, text);
    const isOpen = Object.keys(users).length === 0;
    for (const [user, password] of Object.entries(users)) node.setPassword(user, password);
    const access = isOpen ? ['allow_anonymous true'] : [`password_file ${join(node.folder, 'users')}`];
    node.configure([...access, ...settings]);
    await node.start();
    return node;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  setPassword(user: string, password: string): void {
    const file = join(this.folder, 'users');
    const made = spawnSync('mosquitto_passwd', ['-b', ...(existsSync(file) ? [] : ['-c']), file, user, password], {
      ...UNPRIVILEGED,
    });
    if (made.status !== 0) throw new Error(String(made.stderr));
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text, { mode: 0o644 });
  }

  configure(settings: readonly string[]): void {
    const lines = [`listener ${this.port} 127.0.0.1`, ...settings.map((line) => line.replaceAll('%', this.folder))];
    this.write('mosquitto.conf', `${lines.join('\n')}\n`);
  }

  async start(): Promise<void> {
    const args = ['-c', join(this.folder, 'mosquitto.conf'), '-v'];
    const child = spawn(PROGRAM, args, { stdio: ['ignore', 'ignore', 'pipe'], ...UNPRIVILEGED });
    this.process = child;
    let log = '';
    await new Promise<void>((resolve, reject) => {
      child.stderr.on('data', (text: Buffer) => {
        log += String(text).slice(0, 10_000);
        if (/ running/.test(log)) resolve();
      });
      child.once('exit', () => reject(new Error(`Mosquitto did not start: ${log}`)));
      child.once('error', reject);
    });
    child.stderr.removeAllListeners('data').resume();
  }

  signal(signal: NodeJS.Signals): void {
    this.process?.kill(signal);
  }

  /** SIGKILL: no goodbye, nothing flushed. */
  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  async remove(): Promise<void> {
    await this.stop();
    this.removed();
  }
}
