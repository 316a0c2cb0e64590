// Compiles lib/ with TypeScript and bundles it with Rollup: dist/esm and dist/cjs, one file for each entry point of `exports`.
//   node tools/build.mjs [--if-stale]     --if-stale: do nothing when dist is newer than every source
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const stamp = join(root, 'dist', 'esm', 'package.json');
const project = join(root, 'tsconfig.build.json');

/** Somebody else may be through first: what runs from there keeps its files. */
const isNeeded = () => !process.argv.includes('--if-stale') || isStale();

if (!isNeeded()) process.exit(0);

// Rollup and TypeScript take ten times as long to load as it takes to see that nothing is to be done.
const { bundleCli, bundleCode, bundleDeclarations } = await import('./bundle.mjs');

// Built beside dist and moved into place, so that a process that starts meanwhile never sees half a build.
const staging = join(root, `dist.${process.pid}`);
try {
  const [code, declarations] = ['code', 'declarations'].map((name) => join(staging, name));
  const exits = await Promise.all([
    // Comments are for readers of the sources and, in declarations, for users.
    compile('--declaration', 'false', '--removeComments', '--outDir', code),
    compile('--emitDeclarationOnly', '--outDir', declarations),
  ]);
  if (exits.some((exit) => exit !== 0)) process.exitCode = 1;
  else {
    const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const target = join(staging, 'dist');
    await Promise.all([
      bundleCode(exports, code, target),
      bundleCli(code, target),
      bundleDeclarations(exports, declarations, target),
    ]);
    for (const [format, type] of Object.entries({ esm: 'module', cjs: 'commonjs' }))
      writeFileSync(join(target, format, 'package.json'), `${JSON.stringify({ type })}\n`);
    if (isNeeded()) {
      rmSync(join(root, 'dist'), { recursive: true, force: true });
      renameSync(target, join(root, 'dist'));
    }
  }
} finally {
  rmSync(staging, { recursive: true, force: true });
}

async function compile(...args) {
  const tsc = join(root, 'node_modules', 'typescript7', 'bin', 'tsc');
  const [exit] = await once(spawn(process.execPath, [tsc, '-p', project, ...args], { stdio: 'inherit' }), 'exit');
  return exit;
}

function isStale() {
  if (!existsSync(stamp)) return true;
  const built = statSync(stamp).mtimeMs;
  // Folders too: their time changes when a file is removed.
  const sources = readdirSync(join(root, 'lib'), { recursive: true, withFileTypes: true }).map((entry) =>
    join(entry.parentPath ?? entry.path, entry.name),
  );
  const others = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'tools/build.mjs', 'tools/bundle.mjs'];
  return [...sources, ...others.map((file) => join(root, file))].some((file) => statSync(file).mtimeMs > built);
}
