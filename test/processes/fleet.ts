import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DataSourceOptions } from 'typeorm';

export interface FleetSettings {
  readonly url: string;
  readonly ledger: string;
  /** Milliseconds. */
  readonly lease: number;
  readonly writers: number;
  readonly firstWriter: number;
  readonly keysPerWriter: number;
  readonly messagesPerWriter: number;
}

export function databaseOptions(url: string): DataSourceOptions {
  return url.startsWith('postgres') ? { type: 'postgres', url } : { type: 'mariadb', url, timezone: 'Z' };
}

/** Starts one of the process files; the caller ends it. */
export function startProcess(file: 'relay-process' | 'writer-process', settings: FleetSettings): ChildProcess {
  const root = process.cwd();
  return fork(join(root, 'test', 'processes', `${file}.ts`), [], {
    cwd: root,
    execArgv: ['--enable-source-maps', '--import', join(root, 'tools', 'typescript.mjs')],
    env: { ...process.env, FLEET: JSON.stringify(settings) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

export async function startRelay(settings: FleetSettings): Promise<ChildProcess> {
  const relay = startProcess('relay-process', settings);
  await once(relay, 'message', { signal: AbortSignal.timeout(20_000) });
  return relay;
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

export interface LedgerReport {
  readonly lines: number;
  readonly distinct: number;
  readonly ghosts: number;
  /** First sightings of a key that came after a later one. */
  readonly outOfOrder: number;
  readonly publishers: number;
}

/** Reads what was published, in the order in which it was. */
export function readLedger(file: string): LedgerReport {
  const seen = new Set<string>();
  const publishers = new Set<string>();
  const last = new Map<string, number>();
  let lines = 0;
  let ghosts = 0;
  let outOfOrder = 0;
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    if (line === '') continue;
    const [key, n, id, pid] = line.split(' ') as [string, string, string, string];
    lines += 1;
    publishers.add(pid);
    if (n === '-1') ghosts += 1;
    if (seen.has(id)) continue;
    seen.add(id);
    if (Number(n) !== (last.get(key) ?? 0) + 1) outOfOrder += 1;
    last.set(key, Number(n));
  }
  return { lines, distinct: seen.size, ghosts, outOfOrder, publishers: publishers.size };
}
