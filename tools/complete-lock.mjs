// After `npm install`: adds to package-lock.json the platform packages that npm left out because the registry in use does
// not have them. Without them `npm ci` refuses the lock file, and no other platform than this one could install.
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
    // An exact version of something that names its platform: all that npm would write here, but for the checksum.
    if (platform === undefined || !/^\d+\.\d+\.\d+[\w.-]*$/.test(version))
      throw new Error(`what is ${name}@${version}?`);
    const { os, cpu, libc } = platform;
    // In npm's own order, so that the next `npm install` changes nothing.
    lock.packages[`node_modules/${name}`] = { version, cpu, ...(dev && { dev }), ...libc, optional: true, os };
    added += 1;
  }
}
if (added > 0) {
  const sorted = Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en'));
  writeFileSync(file, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, null, 2)}\n`);
}
console.log(`${added} platform packages added`);

function platformOf(name) {
  const words = name.split(/[/-]/);
  const os = OPERATING_SYSTEMS.find((one) => words.includes(one));
  const cpu = PROCESSORS.find((one) => words.includes(one));
  if (os === undefined || cpu === undefined) return undefined;
  const libc = words.includes('musl') ? 'musl' : words.some((word) => word.startsWith('gnu')) ? 'glibc' : undefined;
  return { os: [os], cpu: [cpu], libc: os === 'linux' && libc !== undefined ? { libc: [libc] } : {} };
}
