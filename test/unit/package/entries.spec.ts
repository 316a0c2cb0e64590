import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = process.cwd();
const json = <T>(file: string): T => JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as T;

const { name, exports, typesVersions } = json<{
  name: string;
  exports: Record<string, string | { require: { types: string; default: string } }>;
  typesVersions: { '*': Record<string, string[]> };
}>('package.json');
/** `exports` is the one list of entry points. Jest, the API check and the test of the packed package read it. */
const entries = Object.entries(exports).flatMap(([path, target]) =>
  typeof target === 'string' ? [] : [{ path: path.slice(1), types: target.require.types }],
);
const sourceOf = (types: string): string => types.replace('./dist/cjs', './lib').replace(/\.d\.ts$/, '.ts');

describe('the entry points in `exports` of package.json', () => {
  it('are files of lib/', () => {
    expect(entries.length).toBeGreaterThan(5);
    expect(entries.map(({ types }) => sourceOf(types)).filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  it('are what tsconfig.json resolves, for tests and samples', () => {
    const { compilerOptions } = json<{ compilerOptions: { paths: Record<string, string[]> } }>('tsconfig.json');
    const { [`${name}/*`]: anywhere = [], ...named } = compilerOptions.paths;
    const filesOf = (path: string): string[] =>
      named[`${name}${path}`] ?? anywhere.map((file) => file.replace('*', path.slice(1)));
    const found = entries.map(({ path }) => filesOf(path).filter((file) => existsSync(join(ROOT, file))));
    expect(found).toEqual(entries.map(({ types }) => [sourceOf(types)]));
  });

  it('are what typesVersions tells resolutions that know no `exports`', () => {
    const subpaths = entries.filter(({ path }) => path !== '');
    expect(typesVersions['*']).toEqual(Object.fromEntries(subpaths.map(({ path, types }) => [path.slice(1), [types]])));
  });

  it('are all imported by a packed application, with their types', () => {
    const fixture = readFileSync(join(ROOT, 'test/package/fixtures/src/subpaths.ts'), 'utf8');
    expect(entries.map(({ path }) => `from '${name}${path}';`).filter((line) => !fixture.includes(line))).toEqual([]);
  });
});
