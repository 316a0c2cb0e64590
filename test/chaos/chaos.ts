import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { compile, ROOT } from './compile.js';
import { FAULT_KINDS } from './faults.js';
import { Fleet } from './fleet.js';
import { History } from './history.js';
import { Observer } from './observer.js';
import { Schedule } from './schedule.js';
import type { BrokerServer } from './servers/broker.js';
import type { DatabaseServer } from './servers/database.js';
import { openBroker, openDatabase } from './servers/open.js';
import { ChaosPgBouncer } from './servers/pgbouncer.js';
import { BROKERS, RELAY, TRANSPORTS, type BrokerName, type Ordering, type StoreName } from './settings.js';

/**
 * Real processes on real servers, with faults, and a checker that reads what happened.
 *   npm run chaos -- --store postgres|mariadb|mysql --broker rabbitmq|kafka --minutes 30 [--seconds 60] --seed 1
 *     [--pooler]         PgBouncer in transaction mode in front of PostgreSQL
 *     [--replica]        an asynchronous replica of PostgreSQL or MariaDB, to which it fails over
 *     [--ordering key|strict]   of the outbox; with strict, transactions of the same keys overlap on purpose
 *     [--no-scan]        relays that never look at everything; without the faults whose rows may wait for that
 *     [--rate 2500]      messages per second that the writers enqueue
 *     [--faults a,b]     only these kinds, or none
 *     [--lib folder]     other sources of the library
 *     [--out folder]     where the history goes and stays; without it, it stays only when the checker convicts
 * The last line is the checker's verdict, as JSON; the exit code is 0 when nothing is broken.
 */
const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'postgres' },
    broker: { type: 'string', default: 'rabbitmq' },
    pooler: { type: 'boolean', default: false },
    replica: { type: 'boolean', default: false },
    ordering: { type: 'string', default: 'key' },
    'no-scan': { type: 'boolean', default: false },
    minutes: { type: 'string' },
    seconds: { type: 'string' },
    seed: { type: 'string', default: '1' },
    rate: { type: 'string', default: '2500' },
    faults: { type: 'string' },
    lib: { type: 'string', default: join(ROOT, 'lib') },
    out: { type: 'string' },
  },
});
const seconds = Number(values.seconds ?? Number(values.minutes ?? 1) * 60);
const seed = Number(values.seed);
const rate = Number(values.rate);
const noScan = values['no-scan'];
const only = values.faults === 'none' ? [] : values.faults?.split(',');
const store = oneOf('store', values.store, ['postgres', 'mariadb', 'mysql']) as StoreName;
const broker = oneOf('broker', values.broker, Object.keys(BROKERS)) as BrokerName;
const ordering = oneOf('ordering', values.ordering, ['key', 'strict']) as Ordering;
if (values.pooler && store !== 'postgres') refuse('--pooler is of PostgreSQL');
if (values.replica && store === 'mysql') refuse('--replica is of PostgreSQL and MariaDB');
for (const kind of only ?? []) oneOf('faults', kind, FAULT_KINDS);
for (const [name, value] of Object.entries({ seconds, seed, rate })) {
  if (!Number.isFinite(value) || value < 0) refuse(`--${name} must be a number`);
}

function oneOf(name: string, value: string, allowed: readonly string[]): string {
  return allowed.includes(value) ? value : refuse(`--${name} must be one of ${allowed.join(', ')}`);
}
function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}

// Servers keep their data in memory where there is a tmpfs: what is tested is not a disk.
const scratch = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'outbox-chaos-'));
chmodSync(scratch, 0o755); // a database server is another user
process.env['TMPDIR'] = join(scratch, 'servers');
mkdirSync(process.env['TMPDIR']);
chmodSync(process.env['TMPDIR'], 0o1777);
const out = resolve(values.out ?? mkdtempSync(join('/tmp', 'outbox-chaos-')));
const parts = join(scratch, 'parts');
for (const folder of [out, parts]) mkdirSync(folder, { recursive: true });

const open: { fleet?: Fleet; servers: Promise<DatabaseServer | BrokerServer | ChaosPgBouncer>[]; compiled?: string } = {
  servers: [],
};
let ending: Promise<void> | undefined;

/** Everything that was started is ended, whatever happened. */
function takeDown(): Promise<void> {
  return (ending ??= (async () => {
    open.fleet?.kill();
    // Also those that are only coming up.
    await Promise.allSettled(open.servers.map(async (server) => (await server).remove()));
    if (open.compiled !== undefined) rmSync(open.compiled, { recursive: true, force: true });
    rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
  })());
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    keep();
    void takeDown().finally(() => process.exit(130));
  });
}

// Who reads the output may be gone.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const begun = performance.now();
function say(what: string): void {
  console.log(`${((performance.now() - begun) / 1_000).toFixed(1).padStart(7)} s  ${what}`);
}

async function main(): Promise<number> {
  const origin = String(process.hrtime.bigint());
  const history = new History(parts, origin);
  open.compiled = compile(resolve(values.lib));
  const opening = [openDatabase(store, values.replica), openBroker(broker)] as const;
  open.servers.push(...opening);
  const [database, server] = await Promise.all(opening);
  const pooling = values.pooler ? ChaosPgBouncer.open(database) : undefined;
  if (pooling !== undefined) open.servers.push(pooling);
  const pooler = await pooling;
  const versions = {
    node: process.version,
    [store]: database.version,
    ...(pooler && { pgbouncer: pooler.version }),
    [broker]: server.version,
  };
  say(`up: ${JSON.stringify(versions)}`);
  history.add(['meta', meta(versions)]);
  const settings = { store, broker, ordering, seed, origin, rate, noScan, parts, compiled: open.compiled };
  const fleet = (open.fleet = new Fleet(settings, database, server, history, pooler));
  await fleet.open();
  fleet.go();
  say('four relays, two writers and a consumer run');
  const observer = new Observer(fleet, say);
  const schedule = new Schedule(fleet, seed, seconds * 1_000, only);
  await schedule.run();
  say('healed');
  await fleet.stopWriting();
  await observer.drain();
  await fleet.close();
  await observer.readEnd();
  const file = join(out, 'history.jsonl');
  await history.assemble(database, file);
  say('checking');
  return check(file);
}

function meta(versions: Readonly<Record<string, string>>): object {
  const relay = { ...RELAY, maxBrokerConnections: BROKERS[broker].connections };
  const { pooler, replica } = values;
  const servers = { store, pooler, replica, broker, ordering };
  return { seed, ...servers, noScan, seconds, rate, versions, transports: TRANSPORTS, relay };
}

/** With the history, what the processes had to say; without one, its parts. */
function keep(): void {
  try {
    cpSync(parts, join(out, 'parts'), { recursive: true });
    console.error(`kept: ${out}`); // the last line of the output is the verdict's
  } catch (error) {
    console.error(error); // and what was started is ended all the same
  }
}

/** Another program: it shares nothing with the library, and knows only the file. */
async function check(file: string): Promise<number> {
  const args = ['--import', join(ROOT, 'tools', 'typescript.mjs'), join(ROOT, 'test', 'chaos', 'check.ts'), file];
  const checker = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = (await once(checker, 'exit')) as [number];
  return code;
}

let code = 1;
process.on('uncaughtException', (error) => {
  if (ending !== undefined) return;
  console.error(error);
  keep();
  void takeDown().finally(() => process.exit(1));
});
try {
  code = await main();
} catch (error) {
  if (ending === undefined) console.error(error);
}
if (code === 0 && values.out === undefined) rmSync(out, { recursive: true, force: true });
else keep();
await takeDown();
process.exit(code);
