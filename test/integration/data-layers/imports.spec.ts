import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const ROOT = process.cwd();
const { exports, devDependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(
  readFileSync(join(ROOT, 'package.json'), 'utf8'),
) as {
  exports: Record<string, string | { import: { default: string }; require: { default: string } }>;
} & Record<'devDependencies' | 'peerDependencies' | 'peerDependenciesMeta', Record<string, unknown>>;
const needed = Object.keys(peerDependencies).filter((name) => !(name in peerDependenciesMeta));
/** Whatever else an application may have beside it, and we have here. */
const optional = Object.keys({ ...devDependencies, ...peerDependencies }).filter((name) => !needed.includes(name));

/** Tells of every module that is imported; what CommonJS requires in one stands in its cache. */
const HOOKS = `import { writeSync } from 'node:fs';
export const load = (url, context, next) => { writeSync(1, url + '\\n'); return next(url, context); };`;
const scriptOf = (files: readonly string[]): string => `import { createRequire, register } from 'node:module';
register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(HOOKS)}`)});
for (const file of ${JSON.stringify(files)}) await import(file);
console.log(Object.keys(createRequire(import.meta.url).cache).join('\\n'));`;

async function loadedBy(...files: string[]): Promise<string[]> {
  const urls = files.map((file) => pathToFileURL(join(ROOT, file)).href);
  const args = ['--input-type=module', '-e', scriptOf(urls)];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, maxBuffer: 1e8 });
  const names = [...stdout.matchAll(/.*\/node_modules\/((?:@[^/]+\/)?[^/\n]+)/g)].map(([, name]) => name as string);
  return optional.filter((name) => names.includes(name)).sort();
}

describe('an entry point', () => {
  const entries = Object.entries(exports).flatMap(([path, targets]) =>
    typeof targets === 'string' ? [] : [[path, targets] as const],
  );
  it.each(entries)('%s loads nothing of another', async (path, targets) => {
    expect(await loadedBy(targets.import.default, targets.require.default)).toEqual(
      path === './typeorm' ? ['typeorm'] : [],
    );
  });

  it('would be caught, also of a library that is no CommonJS', async () => {
    expect(await loadedBy('node_modules/kysely/dist/esm/index.js')).toContain('kysely');
  });
});
