// npm run mutants -- [--only name,name] [--on mysql] [--list] [--histories N] [--seconds S] [--jobs N] [--report FILE] [--resume FILE] [--skip-control]
// Plants one bug after the other into a copy of the sources and lets simulation, contract and chaos try to convict it. A harness that
// convicts nobody proves nothing: fails when one survives. One that convicts the innocent proves as little: first the same layers judge
// the unchanged sources (not with --skip-control), and unless all acquit them nothing is planted.
// The simulation plays first what `test/simulation/seeds.ts` keeps for a mutant: a kept seed that does not convict it is blind, and fails
// the run, too.
// --on mysql: those of the layer that MariaDB and MySQL share, before what the tests run on MySQL; without it, MariaDB's judge them.
// --jobs lets so many be judged side by side (1); a chaos run always has the machine for itself.
// --resume writes each verdict into a file as it comes, and judges nothing that has a good one there, on the same sources: a run of all
// takes hours, and may be made in parts.
// --report writes a table as Markdown. The last line is the result as one JSON object.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import '../../tools/typescript.mjs';
import { control } from './control.mjs';
import { convict, countBy } from './convict.mjs';
import { Kept, NOTHING_KEPT } from './kept.mjs';
import { layersFor, CHAOS } from './layers.mjs';
import { MUTANTS } from './mutants.mjs';
import { onMysql } from './on-mysql.mjs';
import { planted } from './plant.mjs';
import { report } from './report.mjs';
import { Services } from './services.mjs';
import { sideBySide, Slots } from './side-by-side.mjs';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    on: { type: 'string' },
    list: { type: 'boolean', default: false },
    histories: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '40' },
    jobs: { type: 'string', default: '1' },
    report: { type: 'string' },
    resume: { type: 'string' },
    'skip-control': { type: 'boolean', default: false },
  },
});
if (values.on !== undefined && values.on !== 'mysql') throw new Error(`--on: mysql, not ${values.on}`);
const mutants = values.on === 'mysql' ? onMysql(MUTANTS) : MUTANTS;
const wanted = values.only?.split(',');
const chosen = mutants.filter(({ name }) => wanted?.includes(name) ?? true);
const unknown = wanted?.filter((name) => !mutants.some((mutant) => mutant.name === name)) ?? [];
if (unknown.length > 0) throw new Error(`--only: no mutant is called ${unknown.join(', ')}`);
if (values.list) {
  for (const { name, breaks } of chosen) console.log(`${name.padEnd(36)} ${breaks}`);
  process.exit(0);
}

// What was started is ended with this process, but only when it exits.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));

const { SEEDS: seeds } = await import('../simulation/seeds.ts');
const jobs = Number(values.jobs);
if (!Number.isInteger(jobs) || jobs < 1) throw new Error(`--jobs must be a whole number from 1, not ${values.jobs}`);
const services = new Services();
const kept = values.resume === undefined ? NOTHING_KEPT : Kept.in(values.resume, values.on);
const settings = { histories: values.histories, seconds: values.seconds, jobs, services, seeds, kept };
const slots = new Slots(jobs);
try {
  if (chosen.some(({ contract }) => contract !== undefined)) await services.bringUp();
  await main();
} finally {
  await services.stop();
}

async function main() {
  const controls = values['skip-control'] ? [] : await control(chosen, settings, judge, say);
  const isSound = controls.every(({ acquits }) => acquits);
  const results = await sideBySide(isSound ? chosen : [], jobs, plant);
  const convicted = results.filter(({ by }) => by.length > 0);
  const survived = results.filter(({ by, broke }) => by.length === 0 && broke === undefined).map(({ name }) => name);
  const broke = results.filter((result) => result.broke !== undefined).map(({ name }) => name);
  const blindSeeds = results.flatMap((result) => result.blindSeeds);
  const layers = countBy(results);
  if (values.report !== undefined && isSound)
    writeFileSync(values.report, report({ controls, results, settings, of: mutants.length }));
  console.log(JSON.stringify({ mutants: results.length, survived, broke, blindSeeds, layers, controls, results }));
  if (!isSound) console.error('The control failed: whatever these layers convict of proves nothing.');
  if (blindSeeds.length > 0) console.error(`Kept seeds that do not convict their mutant: ${blindSeeds.join(', ')}.`);
  process.exitCode = isSound && convicted.length === results.length && blindSeeds.length === 0 ? 0 : 1;
}

async function plant(mutant) {
  const { name, breaks } = mutant;
  const earlier = kept.result(name);
  if (earlier !== undefined) return { ...earlier, breaks };
  const begun = performance.now();
  const layers = layersFor(mutant);
  const result = await planted(mutant, (folder) =>
    convict(mutant, layers, (layer) => judge(layer, folder, mutant)),
  ).catch((error) => ({
    judges: layers.map((layer) => layer.name),
    by: [],
    broke: error.message,
    blindSeeds: [],
    poison: [],
  }));
  const seconds = secondsSince(begun);
  const fate = result.by.length > 0 ? 'convicted' : result.broke === undefined ? 'SURVIVED' : 'BROKE';
  const told = result.poison.map(
    (trial) => `${trial.layer} ${trial.verdict}, ${trial.seconds} s${trial.detail ? `: ${trial.detail}` : ''}`,
  );
  say(`${fate} ${name}: ${seconds} s (${told.join('; ') || result.broke})`);
  kept.add({ result: { name, ...result, seconds } });
  return { name, breaks, ...result, seconds };
}

function judge(layer, folder, mutant) {
  return slots.hold(layer === CHAOS, async () => {
    const begun = performance.now();
    const judged = await layer.judge(folder, mutant, settings);
    return { ...judged, seconds: secondsSince(begun) };
  });
}

function secondsSince(begun) {
  return Math.round((performance.now() - begun) / 100) / 10;
}

function say(text) {
  console.log(text);
}
