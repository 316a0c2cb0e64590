// npm run mutants -- [--only name,name] [--list] [--histories N] [--seconds S]
// Plants one bug after the other into a copy of the sources and lets simulation, chaos and contract try to convict it. A harness that
// convicts nobody proves nothing: fails when one survives. The last line is the result as one JSON object.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { kafka } from '../../tools/services/kafka.mjs';
import { mariadb } from '../../tools/services/mariadb.mjs';
import { postgres } from '../../tools/services/postgres.mjs';
import { provide } from '../../tools/services/provide.mjs';
import { rabbitmq } from '../../tools/services/rabbitmq.mjs';
import { MUTANTS } from './mutants.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** What the layers need of a checkout. */
const COPIED = ['lib', 'test', 'tools', 'bench', 'sample', 'package.json', 'tsconfig.json', 'jest.config.mjs'];
/** A mutant of these is seen by real servers only: the simulation has a store and a broker of its own. */
const OUTSIDE_SIMULATION = /^lib\/(store\/(postgres|mysql|schema)|publish\/transports)\//;
const TYPESCRIPT = ['--import', './tools/typescript.mjs'];

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    list: { type: 'boolean', default: false },
    histories: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '40' },
  },
});
const chosen = MUTANTS.filter(({ name }) => values.only === undefined || values.only.split(',').includes(name));
if (chosen.length === 0) throw new Error(`--only: no mutant is called ${values.only}`);
if (values.list) {
  for (const { name, breaks } of chosen) console.log(`${name.padEnd(32)} ${breaks}`);
  process.exit(0);
}

// What was started is killed with this process, but only when it exits.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));

const services = chosen.some(({ contract }) => contract !== undefined) ? await bringUp() : [];
const results = [];
for (const mutant of chosen) {
  const result = await convict(mutant);
  results.push(result);
  console.log(
    `${result.by === undefined ? 'SURVIVED' : 'convicted'} ${mutant.name}: ${result.by ?? 'by nobody'}, ${result.seconds} s` +
      `${result.detail === undefined ? '' : ` (${result.detail})`}`,
  );
}
for (const { stop } of services) await stop();
const survived = results.filter(({ by }) => by === undefined).map(({ name }) => name);
const layers = {};
for (const { by } of results) if (by !== undefined) layers[by] = (layers[by] ?? 0) + 1;
console.log(JSON.stringify({ mutants: results.length, survived, layers, results }));
process.exitCode = survived.length > 0 ? 1 : 0;

/** What the contracts run on: a test that is skipped convicts nobody. */
async function bringUp() {
  const started = [];
  for (const service of [postgres, mariadb, rabbitmq, kafka]) {
    const { url, missing, stop } = await provide(service);
    if (url === undefined) throw new Error(`There is no ${service.name}: ${missing.join('; ')}`);
    process.env[service.variable] = url;
    started.push({ stop });
  }
  process.env['OUTBOX_TEST_REQUIRE'] = 'all';
  return started;
}

async function convict(mutant) {
  const begun = performance.now();
  const folder = plant(mutant);
  try {
    for (const layer of layersFor(mutant)) {
      const verdict = await layer.run(folder, mutant);
      if (verdict !== undefined) return { name: mutant.name, by: layer.name, detail: verdict, seconds: since(begun) };
    }
    return { name: mutant.name, by: undefined, seconds: since(begun) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function since(begun) {
  return Math.round((performance.now() - begun) / 100) / 10;
}

/** A copy of the sources with the one change; it must fit exactly once, so that a mutant never silently means nothing. */
function plant({ name, file, from, to }) {
  const folder = mkdtempSync(join(tmpdir(), `outbox-mutant-${name}-`));
  for (const entry of COPIED) cpSync(join(ROOT, entry), join(folder, entry), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, file);
  const text = readFileSync(path, 'utf8');
  const parts = text.split(from);
  if (parts.length !== 2)
    throw new Error(`${name}: its place is found ${parts.length - 1} times in ${file}; must be once`);
  writeFileSync(path, parts.join(to));
  return folder;
}

function layersFor({ file, chaos, contract }) {
  const layers = [];
  if (!OUTSIDE_SIMULATION.test(file)) layers.push({ name: 'simulation', run: simulate });
  if (contract !== undefined) layers.push({ name: 'contract', run: runContract });
  if (chaos !== false) layers.push({ name: 'chaos', run: runChaos });
  return layers;
}

/** @returns what convicted it, or undefined */
async function simulate(folder) {
  const { code, last, errors } = await run(
    folder,
    [...TYPESCRIPT, 'test/simulation/simulate.ts'],
    [...['--histories', values.histories, '--seed', '1', '--first', '--shrink', '0']],
  );
  if (code === 0) return undefined;
  if (code === null) return 'it hangs';
  if (last.violations === undefined) throw new Error(`The simulation broke with exit code ${code}: ${errors}`);
  const { violations, histories, ...rest } = last;
  const invariants = Object.keys(rest).filter((name) => name.startsWith('invariant'));
  return `${violations} of ${histories} histories${invariants.length === 0 ? '' : `: ${invariants.join(', ')}`}`;
}

async function runContract(folder, { contract }) {
  const { code } = await run(folder, ['node_modules/jest/bin/jest.js', contract], []);
  return code === 0 ? undefined : contract;
}

async function runChaos(folder, { chaos = {} }) {
  const { store = 'postgres', broker = 'rabbitmq', faults } = chaos;
  const { code, last, errors } = await run(
    folder,
    [...TYPESCRIPT, 'test/chaos/chaos.ts'],
    [
      ...['--store', store, '--broker', broker, '--seconds', values.seconds, '--seed', '1', '--rate', '1000'],
      ...(faults === undefined ? [] : ['--faults', faults]),
    ],
  );
  if (code === 0) return undefined;
  if (last.committed === undefined) throw new Error(`The chaos run broke with exit code ${code}: ${errors}`);
  return `${store} × ${broker}: ${last.broken.map((name) => `${name} ${last[name]}`).join(', ')}`;
}

/** Ten minutes at most; the last line of its output as JSON, where it is. */
function run(folder, program, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...program, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.on('data', (chunk) => (output = (output + chunk).slice(-100_000)));
    child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-5_000)));
    const timer = setTimeout(() => child.kill('SIGTERM'), 600_000);
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code, errors, last: parse(output.trimEnd().split('\n').at(-1)) });
    });
  });
}

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return {};
  }
}
