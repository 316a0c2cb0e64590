// After `npm install`: adds to package-lock.json the platform packages that npm left out because the registry in use does
// not have them. Without them `npm ci` refuses the lock file, and no other platform than this one could install.
// Their checksums are asked of that registry, one by one; where it cannot tell one, nothing is written.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const file = join(dirname(fileURLToPath(import.meta.url)), '..', 'package-lock.json');
const lock = JSON.parse(readFileSync(file, 'utf8'));
const OPERATING_SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'openharmony', 'sunos', 'win32'];
const PROCESSORS = ['arm', 'arm64', 'ia32', 'loong64', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

let added = 0;
for (const { optionalDependencies = {}, dev } of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    if (Object.keys(lock.packages).some((path) => path.endsWith(`node_modules/${name}`))) continue;
    const platform = platformOf(name);
    // An exact version of something that names its platform: all that npm would write here.
    if (platform === undefined || !/^\d+\.\d+\.\d+[\w.-]*$/.test(version))
      throw new Error(`what is ${name}@${version}?`);
    const { os, cpu, libc } = platform;
    // In npm's own order, so that the next `npm install` changes nothing.
    const integrity = integrityOf(name, version);
    lock.packages[`node_modules/${name}`] = {
      version,
      integrity,
      cpu,
      ...(dev && { dev }),
      ...libc,
      optional: true,
      os,
    };
    added += 1;
  }
}
if (added > 0) {
  const sorted = Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en'));
  writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, null, 2)}\n`);
}
console.log(`${added} platform packages added`);

/** Without it `npm ci` would take whatever it is given. */
function integrityOf(name, version) {
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const options = { encoding: 'utf8', timeout: 60_000, shell: process.platform === 'win32' };
  const integrity = execFileSync(npm, ['view', `${name}@${version}`, 'dist.integrity'], options).trim();
  if (!/^sha512-[\w+/]{86}==$/.test(integrity)) throw new Error(`the registry has no checksum of ${name}@${version}`);
  return integrity;
}

function platformOf(name) {
  const words = name.split(/[/-]/);
  const os = OPERATING_SYSTEMS.find((one) => words.includes(one));
  const cpu = PROCESSORS.find((one) => words.includes(one));
  if (os === undefined || cpu === undefined) return undefined;
  const libc = words.includes('musl') ? 'musl' : words.some((word) => word.startsWith('gnu')) ? 'glibc' : undefined;
  return { os: [os], cpu: [cpu], libc: os === 'linux' && libc !== undefined ? { libc: [libc] } : {} };
}
