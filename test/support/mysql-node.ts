import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A MySQL of one test, for settings that are the whole server's. Takes some two seconds to start. */
export interface MysqlNode {
  readonly url: string;
  /** No goodbye, nothing flushed. */
  kill(): Promise<void>;
  /** Again, after `kill`, on what is on disk. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** It comes with mvn, packed for Linux on x64. */
export function canStartMysql(): boolean {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const packed = process.platform === 'linux' && process.arch === 'x64';
  return packed && folders.some((folder) => existsSync(join(folder, 'mvn')));
}

/** @param logs a folder on another disk, for InnoDB's log; a small one, as that disk is. */
export async function startOwnMysql(flags: readonly string[] = [], logs?: string): Promise<MysqlNode> {
  const { startMysqlServer } = (await import('../../tools/services/mysql-server.mjs' as string)) as {
    startMysqlServer(version: string, flags: readonly string[], logs?: string): Promise<MysqlNode>;
  };
  const small = logs === undefined ? [] : ['--innodb-redo-log-capacity=8M'];
  return startMysqlServer('8.0.31', [...small, ...flags], logs);
}
