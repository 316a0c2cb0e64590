import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { BROKERS, describeWith, requiredUrl } from '../support/services.js';

/** The least that a benchmark takes, where that is not 200 messages in one run. What it measures then means nothing; that it ends well does. */
const RUNS: Readonly<Record<string, string>> = {
  fleet: '1 100 500 1 postgres',
  admin: 'postgres 2000 200 2',
  held: '1 1000',
  partitions: 'mariadb 800',
  load: '4 1000',
  poison: '1 1',
  suspects: 'mariadb 3000 1',
  missing: '2000 300',
  scheduled: 'postgres 1000 1',
  handler: '500 1',
  idle: '1 0',
  latency: '10 1',
  tenants: '3 2 500 1',
  strict: '20 1',
  'opt-ins': '100 1',
  clean: '2000 1',
  enqueue: '50 1',
  inbox: '200 50 1',
  drain: '500 1 500 100',
  observability: '1000 1',
  compress: '1 1',
};
const NAMES = readdirSync('bench').flatMap((file) => (file.endsWith('.ts') ? [file.slice(0, -3)] : []));
/** Most of their time they wait, for leases and servers that start. */
const AT_ONCE = 5;
/** Milliseconds: of one that hangs, on whatever machine. */
const LONGEST = 1_200_000;

interface Ended {
  readonly code: number | string | null;
  readonly last: string;
}

function run(name: string): Promise<Ended> {
  const args = [join('tools', 'bench.mjs'), name, ...(RUNS[name] ?? '200 1').split(' ')];
  const env = { ...process.env, OUTBOX_BENCH_SMOKE: '1', OUTBOX_BENCH_KAFKA_BROKERS: requiredUrl('kafka') };
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, errors] = ['', ''];
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  child.stderr.on('data', (chunk) => (errors += String(chunk)));
  const timer = setTimeout(() => child.kill('SIGTERM'), LONGEST);
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      // Processes of a benchmark may log a word behind its result.
      const last = out.split('\n').findLast((line) => line.startsWith(`{"bench":"${name}"`)) ?? out;
      resolve({ code: code ?? signal, last: code === 0 ? last : `${out}${errors}`.slice(-2_000) });
    });
  });
}

describeWith(['postgres', 'mariadb', ...BROKERS], 'npm run bench, with tiny bounds', () => {
  const ended = new Map<string, Promise<Ended>>();
  beforeAll(() => {
    const running = new Set<Promise<Ended>>();
    let turn: Promise<unknown> = Promise.resolve();
    for (const name of NAMES) {
      const result = turn.then(() => run(name));
      ended.set(name, result);
      turn = turn.then(() => {
        running.add(result);
        void result.then(() => running.delete(result));
        return running.size < AT_ONCE ? undefined : Promise.race(running);
      });
    }
  });

  it.each(NAMES)(
    '%s: ends well, and its last line is its result',
    async (name) => {
      const { code, last } = (await ended.get(name)) as Ended;
      expect({ code, last: code === 0 ? '' : last }).toEqual({ code: 0, last: '' });
      const { bench, ...result } = JSON.parse(last) as Record<string, unknown>;
      expect(bench).toBe(name);
      expect(Object.keys(result).length).toBeGreaterThan(2);
    },
    2 * LONGEST,
  );
});
