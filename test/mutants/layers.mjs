import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { BROKE, CONVICTS, ofChaos, ofContract, ofSimulation } from './verdicts.mjs';

/** A mutant of these is seen by real servers only: the simulation has a store and a broker of its own. */
const OUTSIDE_SIMULATION = /^lib\/(store\/(postgres|mysql)|data-layers|transports)\//;
const TYPESCRIPT = ['--import', './tools/typescript.mjs'];
const MINUTE = 60_000;

/** What of the full scan is left out shows what it would hide. */
export const NO_SCAN = '--no-scan';
export const SIMULATION = { name: 'simulation', judge: simulate };
export const CONTRACT = { name: 'contract', judge: runContract };
export const CHAOS = { name: 'chaos', judge: runChaos };

/** In this order: the fastest first. */
export function layersFor({ file, chaos, contract, simulation }) {
  return [
    ...(OUTSIDE_SIMULATION.test(file) || simulation === false ? [] : [SIMULATION]),
    ...(contract === undefined ? [] : [CONTRACT]),
    ...(chaos === false ? [] : [CHAOS]),
  ];
}

export function serversOf({ chaos }) {
  return { store: 'postgres', broker: 'rabbitmq', ordering: 'key', ...chaos };
}

/** What tells one chaos run from another, but for its faults. */
export function nameOfRun(mutant) {
  const { store, broker, ordering, noScan } = serversOf(mutant);
  return `${store} × ${broker}${ordering === 'key' ? '' : `, ${ordering}`}${noScan ? `, ${NO_SCAN}` : ''}`;
}

/**
 * Innocent sources took `settings.simulationTakes` ms: who takes five times as long will not come to an end. First come the
 * `settings.seeds` that are kept for this mutant, each by itself; of these `blindSeeds` did not convict.
 */
async function simulate(folder, { name, noScan }, { histories, seeds = [], simulationTakes = 2 * MINUTE }) {
  const play = async (first, count, ...more) => {
    const args = ['--histories', String(count), '--seed', String(first), '--shrink', '0', ...more];
    if (noScan) args.push(NO_SCAN);
    const program = [...TYPESCRIPT, 'test/simulation/simulate.ts'];
    const { late, ...ended } = await run(folder, program, args, Math.max(10 * MINUTE, 5 * simulationTakes));
    return ofSimulation({ ...ended, hangs: late });
  };
  const kept = [];
  for (const { seed } of seeds.filter(({ convictedBy }) => convictedBy === name))
    kept.push({ seed, ...(await play(seed, 1)) });
  const telling = kept.find(({ verdict }) => verdict === CONVICTS);
  const judged =
    telling === undefined
      ? await play(1, histories, '--first')
      : { verdict: CONVICTS, detail: `kept seed ${telling.seed}: ${telling.detail}` };
  return { ...judged, blindSeeds: kept.filter(({ verdict }) => verdict !== CONVICTS).map(({ seed }) => seed) };
}

async function runContract(folder, { contract, tests }, { services }) {
  const file = join(folder, `${basename(contract)}.json`);
  rmSync(file, { force: true });
  const options = [
    '--runInBand',
    '--forceExit',
    '--json',
    '--outputFile',
    file,
    '--cacheDirectory',
    join(folder, '.jest'),
    ...(tests === undefined ? [] : ['--testNamePattern', tests]),
  ];
  const { errors } = await run(folder, ['node_modules/jest/bin/jest.js', contract], options);
  const { verdict, detail } = ofContract(existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined);
  if (verdict === BROKE)
    return { verdict, detail: `${contract}: ${detail}${errors === '' ? '' : ` (${errors.slice(-300)})`}` };
  const gone = verdict === CONVICTS ? await services.gone() : [];
  if (gone.length > 0) return { verdict: BROKE, detail: `${contract}: ${gone.join(', ')} did not answer any more` };
  return { verdict, detail: detail && `${contract}: ${detail}` };
}

async function runChaos(folder, mutant, { seconds }) {
  const { store, broker, ordering, faults, noScan, signs } = serversOf(mutant);
  const program = [...TYPESCRIPT, 'test/chaos/chaos.ts'];
  const args = ['--store', store, '--broker', broker, '--ordering', ordering];
  if (noScan) args.push(NO_SCAN);
  // The history of a convict goes with the folder.
  args.push('--seconds', seconds, '--seed', '1', '--rate', '1000', '--out', join(folder, 'history'));
  const ended = await run(folder, program, [...args, ...(faults === undefined ? [] : ['--faults', faults.join(',')])]);
  const { verdict, detail } = ofChaos(ended, signs);
  return { verdict, detail: detail && `${nameOfRun(mutant)}: ${detail}` };
}

/** The last line of its output, which is the verdict as JSON; `late` when it had to be ended. */
function run(folder, program, args, limit = 10 * MINUTE) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...program, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
    const end = () => void child.kill('SIGTERM');
    process.once('exit', end);
    let output = '';
    let errors = '';
    let late = false;
    child.stdout.on('data', (chunk) => (output = (output + chunk).slice(-100_000)));
    child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-5_000)));
    const timer = setTimeout(() => {
      late = true;
      end();
      setTimeout(() => child.kill('SIGKILL'), MINUTE).unref();
    }, limit);
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(timer);
      process.removeListener('exit', end);
      resolve({
        code,
        late,
        errors: errors.trim(),
        last: parse(output.trimEnd().split('\n').at(-1)),
      });
    });
  });
}

function parse(line) {
  try {
    return JSON.parse(line ?? '{}');
  } catch {
    return {};
  }
}
