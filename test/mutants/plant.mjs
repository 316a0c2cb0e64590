import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** What the layers need of a checkout. */
const COPIED = [
  'lib',
  'test',
  'tools',
  'bench',
  'sample',
  'docs',
  'ops', // tests run the rights that it gives
  'README.md',
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'jest.config.mjs',
];

/** Works on a copy of the sources with the one change, or with none. */
export async function planted(mutant, work) {
  const folder = mkdtempSync(join(tmpdir(), `outbox-mutant-${mutant?.name ?? 'control'}-`));
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  process.once('exit', remove);
  try {
    for (const entry of COPIED) cpSync(join(ROOT, entry), join(folder, entry), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    if (mutant !== undefined) change(folder, mutant);
    return await work(folder);
  } finally {
    remove();
    process.removeListener('exit', remove);
  }
}

/** The place must fit exactly once, so that a mutant never silently means nothing. */
function change(folder, { file, from, to }) {
  const path = join(folder, file);
  const parts = readFileSync(path, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`its place is found ${parts.length - 1} times in ${file}; must be once`);
  writeFileSync(path, parts.join(to));
}
