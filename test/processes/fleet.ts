import type { ChildProcess } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DataSource } from 'typeorm';
import type { OutboxOptions } from '../../lib/index.js';
import { startFile } from '../support/own-process.js';
import { createHarness, type Harness } from '../support/relay.js';
import type { DatabaseKind } from '../support/services.js';

export interface FleetSettings {
  readonly url: string;
  readonly ledger: string;
  /** Milliseconds. */
  readonly lease: number;
  readonly writers: number;
  readonly firstWriter: number;
  readonly keysPerWriter: number;
  readonly messagesPerWriter: number;
  /** Publishes to Kafka through a proxy on this port instead of to the ledger. */
  readonly kafka?: { readonly port: number; readonly fencing?: { readonly transactionalId: string } };
  /** Publishes message by message, with so many milliseconds for each. */
  readonly pace?: number;
  /** With `pace`: stops itself, as `SIGSTOP` does, within its nth message, before that goes out. */
  readonly freezeAt?: number;
  /** Refuses the first two tries of messages whose key ends in 0. */
  readonly refuse?: boolean;
  /** Kills itself with SIGKILL at the nth call of this method of the store or the transport. */
  readonly dieAt?: { readonly method: string; readonly when: 'before' | 'after'; readonly nth: number };
  /** Kills itself when it is handed a message with this key. */
  readonly poison?: string;
  /** Starts when it is told to. */
  readonly waits?: boolean;
  readonly relayOptions?: Partial<OutboxOptions>;
}
/** What a process is told while it runs. */
export interface Order {
  readonly start?: boolean;
  /** Milliseconds by which its wall clock is wrong from now on. */
  readonly wrongBy?: number;
}
/** What a relay needs that has no writers beside it. */
export const NO_WRITERS = { writers: 0, firstWriter: 0, keysPerWriter: 0, messagesPerWriter: 0 };

/** Starts one of the process files; the caller ends it. */
export function startProcess(file: 'relay-process' | 'writer-process', settings: FleetSettings): ChildProcess {
  const options = ['--enable-source-maps'];
  return startFile(`test/processes/${file}.ts`, { FLEET: JSON.stringify(settings) }, { options });
}

export async function startRelay(settings: FleetSettings): Promise<ChildProcess> {
  const relay = startProcess('relay-process', settings);
  await heard(relay, settings.waits === true ? 'loaded' : 'ready');
  relay.on('message', () => undefined); // what nobody waits for is not kept for who listens later
  return relay;
}

/** A database, a ledger and processes of each test: none of them is left at its end. */
export function useFleet(kind: DatabaseKind, options: Parameters<typeof createHarness>[1] = {}) {
  const fleet = { harness: undefined as unknown as Harness, ledger: '', children: [] as ChildProcess[] };
  let directory: string | undefined;
  beforeEach(async () => {
    fleet.harness = await createHarness(kind, options);
    directory = mkdtempSync(join(tmpdir(), 'outbox-fleet-'));
    fleet.ledger = join(directory, 'ledger');
    writeFileSync(fleet.ledger, '');
  });
  afterEach(async () => {
    for (const child of fleet.children.splice(0)) {
      child.kill('SIGCONT');
      await end(child, 'SIGKILL');
    }
    await fleet.harness?.close();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });
  return fleet;
}

/** Resolves when the process says so from now on. Its ceiling says "never": several of them may be starting at once. */
export async function heard(child: ChildProcess, word: string): Promise<void> {
  const options = { signal: AbortSignal.timeout(120_000), close: ['disconnect'] };
  for await (const [message] of on(child, 'message', options)) if (message === word) return;
  throw new Error(`The process ended before it said '${word}'.`);
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

/** All leases end now, as far as the database goes: for owners that are dead or stand still, so that they do not notice. */
export async function expireLeases(dataSource: DataSource): Promise<void> {
  for (const table of ['leases', 'instances'])
    await dataSource.query(`update outbox_${table} set expires_at = '2000-01-01 00:00:00'`);
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

/** How many lines each process wrote that another one had to repeat, by its id: what it had published and not settled. */
export function repeatedAfter(file: string): Map<number, number> {
  const last = new Map<string, number>();
  const repeated = new Map<number, number>();
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    if (line === '') continue;
    const [, , id, pid] = line.split(' ') as [string, string, string, string];
    const before = last.get(id);
    if (before !== undefined) repeated.set(before, (repeated.get(before) ?? 0) + 1);
    last.set(id, Number(pid));
  }
  return repeated;
}
