import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createConnection, type Connection } from 'mysql2/promise';
import {
  freePort,
  killAndRemove,
  makeFolder,
  onceAtExit,
  placed,
  runCommand,
  UNPRIVILEGED,
  type OwnServer,
} from './own-server.js';
import type { Closing } from './run.js';

const START_TIMEOUT = 60_000;
const USER = `create database bench; create user bench@'127.0.0.1'; create user bench@localhost;
grant all on *.* to bench@'127.0.0.1'; grant all on *.* to bench@localhost;`
  .replaceAll('\n', ' ')
  .replaceAll('; ', ';\n');

/** A MariaDB of our own on a tmpfs, durable at every commit as it is by default. */
export async function startMariadb(closing: Closing, flags: readonly string[] = []): Promise<OwnServer> {
  const folder = makeFolder('mariadb');
  const [data, pidFile, init] = ['data', 'pid', 'init.sql'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const stop = onceAtExit(() => killAndRemove(pidFile, folder));
  closing.add(stop);
  writeFileSync(init, USER);
  runCommand(
    'mariadb-install-db',
    ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db'],
    folder,
  );
  const port = await freePort();
  const log = openSync(join(folder, 'log'), 'a');
  const child = spawn(
    existsSync('/usr/sbin/mariadbd') ? '/usr/sbin/mariadbd' : 'mariadbd',
    [
      '--no-defaults',
      `--datadir=${data}`,
      `--socket=${join(folder, 'socket')}`,
      `--pid-file=${pidFile}`,
      `--port=${port}`,
      '--bind-address=127.0.0.1',
      `--init-file=${init}`,
      '--innodb-buffer-pool-size=1G',
      '--innodb-log-file-size=1G',
      '--innodb-flush-log-at-trx-commit=1',
      ...flags,
    ],
    { ...placed(folder), detached: true, stdio: ['ignore', log, log], ...UNPRIVILEGED },
  );
  closeSync(log);
  child.unref();
  const kill = onceAtExit(() => child.kill('SIGKILL')); // before it has written its pid
  closing.add(kill);
  const url = `mysql://bench@127.0.0.1:${port}/bench`;
  await ready(url, folder, () => child.exitCode !== null);
  return { url, pid: child.pid as number, folder, stop };
}

async function ready(url: string, folder: string, ended: () => boolean): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT;
  for (;;) {
    const connection = await createConnection(url).catch(() => undefined);
    if (connection !== undefined) return connection.end();
    if (ended() || performance.now() > deadline) {
      throw new Error(`MariaDB did not start:\n${readFileSync(join(folder, 'log'), 'utf8').slice(-2_000)}`);
    }
    await delay(100);
  }
}

export async function openSession(closing: Closing, url: string): Promise<Connection> {
  const connection = await createConnection({
    uri: url,
    rowsAsArray: true,
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
    multipleStatements: true,
  });
  connection.on('error', () => undefined); // the server is stopped under it at the end
  closing.add(() => connection.destroy());
  return connection;
}
