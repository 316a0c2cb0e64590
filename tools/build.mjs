// Compiles lib/ twice with TypeScript 6: dist/esm (ES modules) and dist/cjs (CommonJS), declarations beside both.
//   node tools/build.mjs [--if-stale]     --if-stale: do nothing when dist is newer than every source
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const stamp = join(root, 'dist', 'esm', 'package.json');
const formats = [
  { name: 'esm', project: 'tsconfig.build.json', type: 'module' },
  { name: 'cjs', project: 'tsconfig.build.cjs.json', type: 'commonjs' },
];

if (process.argv.includes('--if-stale') && !isStale()) process.exit(0);

// Built beside dist and moved into place, so that a process that starts meanwhile never sees half a build.
const staging = join(root, `dist.${process.pid}`);
try {
  const codes = await Promise.all(formats.map(compile));
  if (codes.some((code) => code !== 0)) process.exitCode = 1;
  else {
    rmSync(join(root, 'dist'), { recursive: true, force: true });
    renameSync(staging, join(root, 'dist'));
  }
} finally {
  rmSync(staging, { recursive: true, force: true });
}

async function compile({ name, project, type }) {
  const outDir = join(staging, name);
  mkdirSync(outDir, { recursive: true });
  writeFileSync(join(outDir, 'package.json'), `${JSON.stringify({ type })}\n`);
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc6');
  const compiler = spawn(process.execPath, [tsc, '-p', join(root, project), '--outDir', outDir], { stdio: 'inherit' });
  const [code] = await once(compiler, 'exit');
  return code;
}

function isStale() {
  if (!existsSync(stamp)) return true;
  const built = statSync(stamp).mtimeMs;
  // Folders too: their time changes when a file is removed.
  const sources = readdirSync(join(root, 'lib'), { recursive: true, withFileTypes: true }).map((entry) =>
    join(entry.parentPath ?? entry.path, entry.name),
  );
  const configurations = ['tsconfig.json', ...formats.map((format) => format.project)].map((file) => join(root, file));
  return [...sources, ...configurations].some((file) => statSync(file).mtimeMs > built);
}
