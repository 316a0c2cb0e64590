// Which command runs a file of tests. It is said once: by the file's first line, `// @tier gate`, or by its folder, here.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Each command runs what those before it run, too: `npm run test:fast`, `npm test`, `npm run test:all`. */
export const TIERS = ['fast', 'gate', 'all'];

/** What is in no folder of these, and has no such line, runs in `test:all` alone. */
const FOLDERS = { 'test/unit/': 'fast', 'test/readme/': 'fast', 'test/contract/': 'gate', 'test/package/': 'gate' };
const MARK = /^\/\/ @tier (.*)\n/;

/** @param name path from the root of the repository, with `/` */
export function tierOf(name, source) {
  const said = MARK.exec(source)?.[1];
  if (said !== undefined && !TIERS.includes(said))
    throw new Error(`${name}: no tier is called ${said}: ${TIERS.join(', ')}`);
  const folder = Object.keys(FOLDERS).find((each) => name.startsWith(each));
  return said ?? FOLDERS[folder] ?? 'all';
}

/** The files that the command of `tier` runs, as paths from `root`. */
export function filesOf(tier, root) {
  const rank = (name) => TIERS.indexOf(name);
  return specsOf(root).filter((name) => rank(tierOf(name, readFileSync(join(root, name), 'utf8'))) <= rank(tier));
}

/** All there are. */
export function specsOf(root) {
  return ['test', 'sample']
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)))
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.spec.ts') && !name.includes('/node_modules/'))
    .sort();
}
