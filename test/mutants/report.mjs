import { execFileSync } from 'node:child_process';
import { countBy } from './convict.mjs';
import { ACQUITS, CONVICTS } from './verdicts.mjs';

/** @param of how many mutants there are */
export function report({ controls, results, settings, of }) {
  const layers = Object.entries(countBy(results)).map(([layer, count]) => `${layer} ${count}`);
  const convicted = results.filter(({ by }) => by.length > 0).length;
  const blind = results.flatMap(({ blindSeeds }) => blindSeeds);
  const seeds = blind.length > 0 ? ` Kept seeds that do not convict their mutant: ${blind.join(', ')}.` : '';
  const beside = settings.jobs > 1 ? `; ${settings.jobs} judged side by side, but for chaos, which runs alone` : '';
  const part = results.length < of ? ` Only ${results.length} of ${of} were planted: this is a part.` : '';
  return `# Mutants

\`npm run mutants\` plants each bug into a copy of the sources; simulation, contract and chaos try to convict it, one after the other, and the first that does ends it,
but for those that every one of their layers must convict.
${convicted} of ${results.length} convicted (${layers.join(', ')}), at ${commit()}, Node ${process.version}, up to ${settings.histories} histories and ${settings.seconds} s of chaos for each${beside}.${part}${seeds}

## The unchanged sources

${controls.length === 0 ? 'Were not judged.' : table(['layer', 'run', 'verdict', 'seconds'], controls.map(controlRow))}

## The planted bugs

"Seconds" are those of the layer that convicted; "in all" has those that acquitted before it, too, and what it waited for others.

${table(['mutant', 'what it breaks', 'convicted by', 'seconds', 'in all', 'acquitted by', 'how'], results.map(mutantRow))}

## Judged by contracts alone

${alone(results)}
`;
}

const controlRow = ({ layer, what, verdict, detail, seconds }) => [
  layer,
  what,
  detail ? `${verdict} (${detail})` : verdict,
  seconds,
];

function mutantRow({ name, breaks, by, poison, broke, seconds }) {
  const convicting = poison.filter(({ verdict }) => verdict === CONVICTS);
  const some = convicting.length > 0 ? `**only ${convicting.map(({ layer }) => layer).join(' and ')}**` : '**nobody**';
  return [
    `\`${name}\``,
    breaks,
    by.length > 0 ? by.join(' and ') : broke === undefined ? some : '**not judged**',
    convicting.map((trial) => trial.seconds).join(' and '),
    seconds,
    poison
      .filter(({ verdict }) => verdict === ACQUITS)
      .map(({ layer }) => layer)
      .join(', '),
    broke ?? convicting.map(({ detail }) => detail).join('; '),
  ];
}

/** A contract is a test of what its author thought of; the two others judge what nobody did. */
function alone(results) {
  const names = results.filter(({ judges }) => judges.join() === 'contract').map(({ name }) => `\`${name}\``);
  if (names.length === 0) return 'None: simulation or chaos could have convicted each, too.';
  return `${names.length} of ${results.length} had no other judge: simulation and chaos cannot see them, or were not asked. That says nothing of either.\n\n${names.join(', ')}`;
}

function table(head, rows) {
  const line = (cells) =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function commit() {
  try {
    const git = (...args) => execFileSync('git', args, { encoding: 'utf8', stdio: 'pipe' }).trim();
    return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', 'lib', 'test') === '' ? '' : ' with changes'}`;
  } catch {
    return 'an unknown commit';
  }
}
