// The layout rules that oxlint cannot express. Prints one line per violation; exit code 1 when there is one.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const STAGES = ['enqueue', 'store', 'claim', 'publish', 'settle', 'clean', 'observe'];
/** What a stage may import of another folder. */
const SEAMS = new Set([
  'lib/store/outbox-store',
  'lib/store/lease-store',
  'lib/store/ready-store',
  'lib/store/parked-store',
  'lib/store/admin-store',
  'lib/store/sql',
  'lib/store/executors/executor',
  'lib/publish/transport',
  'lib/publish/serializer',
  'lib/dispatch/clock',
  'lib/observe/error-text',
  'lib/observe/events',
  'lib/observe/health',
  'lib/observe/secrets',
  'lib/observe/stats',
]);
/** Loaded only when a relay needs them, so that an application without them starts. */
const OPTIONAL_PEERS = new Set(['kafkajs', 'amqplib', '@nestjs/microservices', '@nestjs/schedule']);
const IMPORT = /^\s*(?:import|export)\s+(type\s)?(?:[\w*{][^'";()]*?\sfrom\s+)?'([^']+)'/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*'([^']+)'/g;
/** Hosts that packages are downloaded from, and paths of somebody's machine: neither belongs into the project. */
const HOST = /https?:\/\/[\w.-]*(?:registry|repo1?\.|mirror|proxy|artifactory|nexus)[\w.-]*/i;
const MACHINE_PATH = /(?<![\w.])\/(?:work|root|home|Users)\/\w+/;

const problems = [];
for (const file of trackedFiles()) {
  const text = readFileSync(join(root, file), 'utf8');
  checkPlaces(file, text);
  if (/^lib\/.*\.ts$/.test(file)) checkLibrary(file, text);
}
for (const problem of problems) console.error(problem);
if (problems.length > 0) console.error(`check-layout: ${problems.length} violation(s)`);
process.exitCode = problems.length > 0 ? 1 : 0;

function trackedFiles() {
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  return list
    .split('\0')
    .filter((file) => file !== '' && existsSync(join(root, file)) && statSync(join(root, file)).size < 4 * 1024 * 1024);
}

function checkPlaces(file, text) {
  text.split('\n').forEach((line, index) => {
    if (HOST.test(line)) problems.push(`${file}:${index + 1} names a download host`);
    if (MACHINE_PATH.test(line)) problems.push(`${file}:${index + 1} holds an absolute path of a machine`);
  });
}

function checkLibrary(file, text) {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1');
  const forbidden = [
    [/\bimport\.meta\b/, 'import.meta has no CommonJS form', !file.startsWith('lib/cli/')],
    [/^await\s/m, 'top-level await has no CommonJS form', true],
    [/^export \*/m, 'export * hides what is public', true],
    [
      /(^|[(,])\s*(private|protected)\s+(readonly\s+|static\s+|async\s+)?\w/m,
      'private members make two copies of a class incompatible: use @internal',
      true,
    ],
    [/^\s*(readonly |static |async )*#\w+/m, '#private makes two copies of a class incompatible: use @internal', true],
  ];
  for (const [pattern, why, applies] of forbidden) if (applies && pattern.test(code)) problems.push(`${file}: ${why}`);
  for (const { specifier, typeOnly } of importsOf(code)) checkImport(file, specifier, typeOnly);
}

function importsOf(code) {
  return [
    ...[...code.matchAll(IMPORT)].map((match) => ({ specifier: match[2], typeOnly: match[1] !== undefined })),
    ...[...code.matchAll(DYNAMIC_IMPORT)].map((match) => ({ specifier: match[1], typeOnly: true })),
  ];
}

function checkImport(file, specifier, typeOnly) {
  if (
    !typeOnly &&
    OPTIONAL_PEERS.has(
      specifier
        .split('/')
        .slice(0, specifier.startsWith('@') ? 2 : 1)
        .join('/'),
    )
  )
    problems.push(`${file}: imports the optional peer ${specifier} eagerly; use import type and import()`);
  if (!specifier.startsWith('.')) return;
  const target = posix.join(posix.dirname(file), specifier).replace(/\.js$/, '');
  const from = file.split('/')[1];
  const to = target.split('/')[1];
  const crosses = STAGES.includes(from) && target.split('/').length > 2 && to !== from;
  if (crosses && !SEAMS.has(target)) problems.push(`${file}: the stage ${from} imports ${target}, which is no seam`);
}
