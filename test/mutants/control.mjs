import { layersFor, nameOfRun, serversOf, CHAOS, CONTRACT, NO_SCAN, SIMULATION } from './layers.mjs';
import { planted } from './plant.mjs';
import { sideBySide } from './side-by-side.mjs';
import { ACQUITS } from './verdicts.mjs';

/**
 * The unchanged sources before the layers that will judge these mutants: the simulation, each contract, one chaos run for each set of
 * servers and faults. Tells `settings` how long the simulation took.
 * @param judge what a layer makes of a mutant, and in how many seconds
 * @returns what each said
 */
export function control(mutants, settings, judge, say) {
  return planted(undefined, (folder) =>
    sideBySide(poison(mutants), settings.jobs, async ({ layer, what, mutant }) => {
      const earlier = settings.kept.control(layer.name, what);
      if (earlier !== undefined) return earlier;
      const { verdict, detail, seconds } = await judge(layer, folder, mutant);
      if (layer === SIMULATION) settings.simulationTakes = Math.max(settings.simulationTakes ?? 0, seconds * 1000);
      const named = `${layer.name}${what === '' ? '' : ` ${what}`}`;
      say(`control ${named}: ${verdict}, ${seconds} s${detail ? ` (${detail})` : ''}`);
      const said = { layer: layer.name, what, acquits: verdict === ACQUITS, verdict, detail, seconds };
      settings.kept.add({ control: said });
      return said;
    }),
  );
}

/** Each once, by layer, by what distinguishes it. */
export function poison(mutants) {
  const wanted = new Map();
  for (const layer of [SIMULATION, CONTRACT, CHAOS]) {
    for (const mutant of mutants) {
      if (!layersFor(mutant).includes(layer)) continue;
      const what = nameOf(layer, mutant);
      if (!wanted.has(`${layer.name} ${what}`))
        wanted.set(`${layer.name} ${what}`, { layer, what, mutant: innocent(mutant) });
    }
  }
  return [...wanted.values()];
}

function nameOf(layer, mutant) {
  if (layer === SIMULATION) return mutant.noScan ? NO_SCAN : '';
  if (layer === CONTRACT) return mutant.contract;
  const { faults } = serversOf(mutant);
  return `${nameOfRun(mutant)}${faults === undefined ? '' : `, ${faults.join(' and ')}`}`;
}

/** Whatever the layer can see counts against the innocent. */
function innocent({ contract, tests, chaos, noScan }) {
  return { contract, tests, noScan, chaos: chaos === undefined ? undefined : { ...chaos, signs: undefined } };
}
