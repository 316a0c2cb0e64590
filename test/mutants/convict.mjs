import { BROKE, CONVICTS } from './verdicts.mjs';

/**
 * One layer after the other, until one convicts. A mutant for `every` layer is convicted by all or by none: it is there to show that
 * each of them sees it. A layer that could not judge is no acquittal.
 * @param judge tells what this layer makes of it, and in how many seconds
 */
export async function convict({ every = false }, layers, judge) {
  const trials = [];
  let blindSeeds = [];
  for (const layer of layers) {
    const { verdict, detail, seconds, blindSeeds: blind = [] } = await judge(layer);
    blindSeeds = [...blindSeeds, ...blind];
    trials.push({ layer: layer.name, verdict, detail, seconds });
    if ((verdict === CONVICTS) !== every) break;
  }
  const guilty = trials.filter(({ verdict }) => verdict === CONVICTS);
  const broken = trials.find(({ verdict }) => verdict === BROKE);
  const convicted = guilty.length >= (every ? layers.length : 1);
  return {
    judges: layers.map(({ name }) => name),
    by: convicted ? guilty.map(({ layer }) => layer) : [],
    broke: convicted || broken === undefined ? undefined : `${broken.layer}: ${broken.detail}`,
    blindSeeds,
    trials,
  };
}

/** How many each layer convicted; who has two has two. */
export function countBy(results) {
  const counts = {};
  for (const layer of results.flatMap(({ by }) => by)) counts[layer] = (counts[layer] ?? 0) + 1;
  return counts;
}
