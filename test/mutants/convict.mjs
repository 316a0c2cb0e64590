import { BROKE, CONVICTS } from './verdicts.mjs';

/**
 * One layer after the other, until one convicts. A mutant for `every` layer is convicted by all or by none: it is there to show that
 * each of them sees it. A layer that could not judge is no acquittal.
 * @param judge tells what this layer makes of it, and in how many seconds
 */
export async function convict({ every = false }, layers, judge) {
  const poison = [];
  let blindSeeds = [];
  for (const layer of layers) {
    const { verdict, detail, seconds, blindSeeds: blind = [] } = await judge(layer);
    blindSeeds = [...blindSeeds, ...blind];
    poison.push({ layer: layer.name, verdict, detail, seconds });
    if ((verdict === CONVICTS) !== every) break;
  }
  const guilty = poison.filter(({ verdict }) => verdict === CONVICTS);
  const broken = poison.find(({ verdict }) => verdict === BROKE);
  const convicted = guilty.length >= (every ? layers.length : 1);
  return {
    judges: layers.map(({ name }) => name),
    by: convicted ? guilty.map(({ layer }) => layer) : [],
    broke: convicted || broken === undefined ? undefined : `${broken.layer}: ${broken.detail}`,
    blindSeeds,
    poison,
  };
}

/** How many each layer convicted; who has two has two. */
export function countBy(results) {
  const counts = {};
  for (const layer of results.flatMap(({ by }) => by)) counts[layer] = (counts[layer] ?? 0) + 1;
  return counts;
}
