// npm run check:package: builds, packs, and checks what a user would get.
//   --update-api    writes etc/*.api.md instead of comparing with them
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkApi } from './check-api.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const ALLOWED =
  /^(dist\/(esm|cjs)\/.*\.(js|d\.ts|json)|docs\/.*\.md|docs\/pictures\/.*\.svg|ops\/[\w-]+\.(yml|json|sql)|package\.json|README\.md|SECURITY\.md|LICENSE)$/;
const REQUIRED = ['package.json', 'README.md', 'SECURITY.md', 'LICENSE'];
/** What npm runs on the machine of whoever installs the package. */
const INSTALL_SCRIPTS = ['preinstall', 'install', 'postinstall', 'prepublish', 'preprepare', 'prepare', 'postprepare'];
/** Keys and tokens as they begin, and passwords in URLs; not those of examples. */
const CREDENTIALS = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
  /\b(?:npm_|gh[pousr]_|github_pat_|glpat-|xox[abpr]-|AKIA)[A-Za-z0-9_-]{16,}/,
  /_authToken\s*=/,
  /\b[a-z][a-z0-9+.-]+:\/\/[^\s/:@'"`<>{}$*]+:(?!password@|secret@|guest@)[^\s/@'"`<>{}$*]+@/,
];
/** Of what is packed: it was 2,545 files and 12.2 MB before it was bundled; it only falls. */
const MOST_FILES = 240;
const MOST_BYTES = 2_600_000;
/** What nobody has who installed the package. In the pages a folder counts too; their own files begin with `src/`. */
const ELSEWHERE = /\b(lib|test|bench|sample|tools|docs\/internals)\/[\w./-]*\.\w+|sourceMappingURL/;
const ELSEWHERE_IN_PAGES =
  /(?<![\w/.@-])(\.{1,2}\/)*(lib|test|bench|sample|tools|etc|internals|docs\/internals)\/[\w./-]*/;
const TEST_CODE = /\.spec\.|(^|\/)(test|fixtures|__mocks__)\//;

const scratch = mkdtempSync(join(tmpdir(), 'outbox-package-'));
const failed = [];
try {
  step('build', () => node('tools/build.mjs', '--if-stale'));
  const tarball = pack();
  step('publint', () => bin('publint', [tarball, '--strict']));
  step('types (attw)', () => bin('attw', [tarball, '--profile', 'strict'], '@arethetypeswrong/cli'));
  step('unused code (knip)', () => bin('knip', []));
  step('API reports', () => checkApi(root, manifest, process.argv.includes('--update-api')));
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
console.log(failed.length === 0 ? 'check:package: all good' : `check:package: failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;

function step(name, check) {
  console.log(`— ${name}`);
  if (!check()) failed.push(name);
}

function pack() {
  const { stdout, status } = spawnSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', scratch], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    shell: process.platform === 'win32',
  });
  if (status !== 0) throw new Error('npm pack failed');
  // npm 11 prints an array, npm 12 an object by package name.
  const [packed] = Object.values(JSON.parse(stdout));
  const files = packed.files.map((file) => file.path);
  step('content of the tarball', () => checkContent(files));
  step('code and pages that cite nothing of the repository', () => checkCitations(files));
  step('classes that two copies of the package can share', () => checkClasses(files));
  step('size of the tarball', () => checkSize(files.length, packed.unpackedSize));
  step('nothing runs at install, nothing secret is in it', () => checkSafety(files));
  return join(scratch, packed.filename);
}

function checkContent(files) {
  const problems = [
    ...files.filter((file) => !ALLOWED.test(file) || TEST_CODE.test(file)).map((file) => `does not belong: ${file}`),
    ...[...REQUIRED, ...targets(manifest.exports), ...Object.values(manifest.bin)]
      .filter((file) => !files.includes(file))
      .map((file) => `missing: ${file}`),
  ];
  for (const problem of problems) console.error(problem);
  return problems.length === 0;
}

function checkCitations(files) {
  const found = files.flatMap((file) => {
    const pattern = file.endsWith('.md') ? ELSEWHERE_IN_PAGES : file.startsWith('dist/') ? ELSEWHERE : /$^/;
    const [cited] = pattern.exec(readFileSync(join(root, file), 'utf8')) ?? [];
    return cited === undefined ? [] : [`${file} cites ${cited}`];
  });
  for (const problem of found) console.error(problem);
  return found.length === 0;
}

/** A private member makes a class of one copy another type than that of the next: what is published marks it `@internal`. */
function checkClasses(files) {
  const found = files
    .filter((file) => file.endsWith('.d.ts'))
    .flatMap((file) =>
      [...readFileSync(join(root, file), 'utf8').matchAll(/^\s+(?:(?:private|protected)\b|#private;).*$/gm)].map(
        ([line]) => `${file}: ${line.trim()}`,
      ),
    );
  for (const problem of found) console.error(problem);
  return found.length === 0;
}

function checkSize(files, bytes) {
  console.log(`${files} files of at most ${MOST_FILES}, ${bytes} bytes of at most ${MOST_BYTES}`);
  return files <= MOST_FILES && bytes <= MOST_BYTES;
}

function checkSafety(files) {
  const problems = [
    ...INSTALL_SCRIPTS.filter((name) => name in manifest.scripts).map((name) => `runs at install: ${name}`),
    ...Object.keys(manifest.dependencies ?? {}).map((name) => `brings along: ${name}`),
    ...files
      .filter((file) => /(^|\/)(\.env|\.npmrc|binding\.gyp)$/.test(file))
      .map((file) => `does not belong: ${file}`),
    ...files.flatMap((file) => {
      const text = readFileSync(join(root, file), 'utf8');
      return CREDENTIALS.flatMap((pattern) => pattern.exec(text)?.[0] ?? []).map((found) => `${file}: ${found}`);
    }),
  ];
  for (const problem of problems) console.error(problem);
  return problems.length === 0;
}

/** Every file that `exports` promises. */
function targets(value) {
  if (typeof value === 'string') return [value.replace(/^\.\//, '')];
  return [...new Set(Object.values(value).flatMap(targets))];
}

function node(...args) {
  return spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status === 0;
}

/** Runs a command of an installed package without npx. */
function bin(name, args, home = name) {
  const folder = join(root, 'node_modules', home);
  const { bin: entry } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return node(join(folder, typeof entry === 'string' ? entry : entry[name]), ...args);
}
