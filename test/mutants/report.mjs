import { execFileSync } from 'node:child_process';

/** @param of how many mutants there are */
export function report({ controls, results, settings, of }) {
  const layers = countBy(results);
  const convicted = results.filter(({ by }) => by !== undefined).length;
  const part = results.length < of ? ` Only ${results.length} of ${of} were planted: this is a part.` : '';
  return `# Mutants

\`npm run mutants\` plants each bug into a copy of the sources; simulation, contract and chaos try to convict it, one after the other, and the first that does ends it.
${convicted} of ${results.length} convicted (${layers}), at ${commit()}, Node ${process.version}, up to ${settings.histories} histories and ${settings.seconds} s of chaos for each.${part}

## The unchanged sources

${controls.length === 0 ? 'Were not judged.' : table(['layer', 'run', 'verdict', 'seconds'], controls.map(controlRow))}

## The planted bugs

${table(['mutant', 'what it breaks', 'convicted by', 'seconds', 'how'], results.map(mutantRow))}
`;
}

const controlRow = ({ layer, what, verdict, detail, seconds }) => [
  layer,
  what,
  detail ? `${verdict} (${detail})` : verdict,
  seconds,
];

function mutantRow({ name, breaks, by, detail, broke, seconds }) {
  return [
    `\`${name}\``,
    breaks,
    by ?? (broke === undefined ? '**nobody**' : '**not judged**'),
    seconds,
    detail ?? broke ?? '',
  ];
}

function countBy(results) {
  const counts = {};
  for (const { by } of results) if (by !== undefined) counts[by] = (counts[by] ?? 0) + 1;
  return Object.entries(counts)
    .map(([layer, count]) => `${layer} ${count}`)
    .join(', ');
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
