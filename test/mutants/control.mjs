import { layersFor, nameOfRun, serversOf, CHAOS, CONTRACT, SIMULATION } from './layers.mjs';
import { planted } from './plant.mjs';
import { ACQUITS } from './verdicts.mjs';

/**
 * The unchanged sources before the layers that will judge these mutants: the simulation, each contract, one chaos run for each set of
 * servers and faults. Tells `settings` how long the simulation took.
 * @returns what each said
 */
export function control(mutants, settings, say) {
  return planted(undefined, async (folder) => {
    const results = [];
    for (const { layer, what, mutant } of trials(mutants)) {
      const begun = performance.now();
      const { verdict, detail } = await layer.judge(folder, mutant, settings);
      const ms = performance.now() - begun;
      if (layer === SIMULATION) settings.simulationTakes = ms;
      const result = {
        layer: layer.name,
        what,
        acquits: verdict === ACQUITS,
        verdict,
        detail,
        seconds: Math.round(ms / 100) / 10,
      };
      results.push(result);
      say(
        `control ${layer.name}${what === '' ? '' : ` ${what}`}: ${verdict}, ${result.seconds} s${detail ? ` (${detail})` : ''}`,
      );
    }
    return results;
  });
}

/** Each once, by layer, by what distinguishes it. */
export function trials(mutants) {
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
  if (layer === SIMULATION) return '';
  if (layer === CONTRACT) return mutant.contract;
  const { faults } = serversOf(mutant);
  return `${nameOfRun(mutant)}${faults === undefined ? '' : `, ${faults.join(' and ')}`}`;
}

/** Whatever the layer can see counts against the innocent. */
function innocent({ contract, chaos }) {
  return { contract, chaos: chaos === undefined ? undefined : { ...chaos, signs: undefined } };
}
