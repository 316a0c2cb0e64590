// The layout rules that oxlint cannot express. Prints one line per violation; exit code 1 when there is one.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/**
 * Room → what it may import, in the order of a message's life. A room is a folder of lib/; in `store`, `transports` and
 * `data-layers` each folder is one of its own. Every room may import itself and `errors`.
 */
const ROOMS = {
  errors: [],
  message: [],
  time: ['message'],
  // What the doctor asks a database.
  'store/diagnose': [],
  'store/partitions': ['time'],
  // What operators have paused, and how relays hear of it.
  'store/pauses': [],
  store: ['message', 'time', 'store/diagnose', 'store/partitions', 'store/pauses'],
  // How tables are changed while others use them, and what a start finds wrong with them.
  'store/schema': ['time', 'store'],
  transports: ['message', 'time'],
  observe: ['message', 'time', 'store', 'store/pauses', 'transports'],
  options: ['message', 'time', 'store', 'store/partitions', 'transports', 'observe'],
  transaction: ['message', 'time', 'options', 'store'],
  admin: ['message', 'time', 'options', 'store', 'store/pauses', 'observe', 'payloads'],
  // What operators and leases ask at their own rate: written once, over what differs.
  'store/sql': ['message', 'time', 'store', 'store/diagnose', 'store/partitions', 'store/pauses'],
  'store/postgres': [
    'message',
    'time',
    'store',
    'store/sql',
    'store/schema',
    'store/diagnose',
    'store/partitions',
    'store/pauses',
  ],
  'store/mysql': [
    'message',
    'time',
    'store',
    'store/sql',
    'store/schema',
    'store/diagnose',
    'store/partitions',
    'store/pauses',
    'observe',
  ],
  doctor: [
    'message',
    'time',
    'options',
    'store',
    'store/diagnose',
    'store/partitions',
    'transports',
    'observe',
    'admin',
  ],
  // Connections over pg and mysql2, whatever library the application has its own by.
  'data-layers/drivers': ['time', 'store', 'store/postgres', 'store/mysql', 'transaction'],
  // What is the same for all libraries over these drivers.
  'data-layers/library': ['options', 'store', 'transaction', 'data-layers/drivers'],
  // A library's room without a row of its own: it says which connection of a driver a transaction runs on.
  'data-layers/*': ['options', 'data-layers/library'],
  'data-layers/knex': ['options', 'data-layers/library'],
  // On MariaDB and MySQL it has a driver of its own, which needs a watch.
  'data-layers/prisma': ['options', 'store', 'transaction', 'data-layers/drivers', 'data-layers/library'],
  // Its release 6 runs over Knex.
  'data-layers/mikro-orm': ['options', 'data-layers/library', 'data-layers/knex'],
  // What makes, upgrades and drops the tables, whoever runs it: TypeORM's migrator, or the command line.
  'data-layers/tables': [
    'options',
    'store',
    'store/schema',
    'store/postgres',
    'store/mysql',
    'transaction',
    'data-layers/drivers',
  ],
  'data-layers/typeorm': [
    'message',
    'time',
    'options',
    'store',
    'store/schema',
    'store/postgres',
    'store/mysql',
    'transaction',
    'data-layers/drivers',
    'data-layers/tables',
  ],
  // Which one an application has.
  'data-layers': ['options', 'transaction', 'data-layers/typeorm'],
  // What an application may do with the content of its messages: checks, older versions, compression.
  payloads: ['message', 'options', 'observe'],
  enqueue: ['message', 'time', 'options', 'store', 'transports', 'observe', 'transaction', 'admin', 'payloads'],
  relay: ['message', 'time', 'options', 'store', 'store/diagnose', 'store/pauses', 'transports', 'observe'],
  clean: ['time', 'options', 'store', 'store/partitions', 'observe'],
  partitions: ['message', 'options', 'store/partitions', 'observe'],
  // What a broker and its client say, whoever speaks through them: a transport of ours, or a Nest client.
  'transports/kafkajs': ['message', 'time', 'options', 'transports'],
  'transports/amqp': ['message', 'time', 'options', 'transports'],
  // One connection, and messages that are each answered by themselves: what a broker shares with others of that kind.
  'transports/session': ['message', 'time', 'transports'],
  // A broker's room without a row of its own.
  'transports/*': ['message', 'time', 'options', 'transports', 'transports/session'],
  'transports/kafka': ['message', 'time', 'options', 'transports', 'transports/kafkajs'],
  'transports/rabbitmq': ['message', 'time', 'options', 'transports', 'transports/amqp'],
  // The options of Nest's clients, and their messages; these brokers' transports send them.
  'transports/nest-client': [
    'message',
    'time',
    'options',
    'transports',
    'transports/kafkajs',
    'transports/amqp',
    'transports/kafka',
    'transports/rabbitmq',
    'payloads',
  ],
  'transports/in-process': ['message', 'time', 'options', 'transports', 'enqueue'],
  // What stands between a relay and a transport where payloads are stored encrypted.
  encryption: ['message', 'time', 'options', 'transports'],
  consumer: ['message', 'options', 'transports', 'transports/amqp', 'enqueue', 'payloads'],
  nest: [
    'message',
    'time',
    'options',
    'store',
    'transports',
    'transports/in-process',
    'observe',
    'transaction',
    'store/postgres',
    'store/mysql',
    'store/pauses',
    'admin',
    'payloads',
    'enqueue',
    'relay',
    'encryption',
    'payloads',
    'clean',
    'partitions',
  ],
  // The public face: index.ts, the module and its tokens.
  entry: [
    'message',
    'options',
    'store',
    'store/partitions',
    'transports',
    'transports/in-process',
    'observe',
    'transaction',
    'store/diagnose',
    'store/pauses',
    'admin',
    'doctor',
    'data-layers',
    'data-layers/drivers',
    'payloads',
    'enqueue',
    'relay',
    'clean',
    'partitions',
    'payloads',
    'nest',
  ],
  // Faces for operators, beside the core: nothing of it knows them.
  prometheus: ['message', 'time', 'options', 'observe', 'enqueue', 'transports', 'transports/in-process'],
  otel: ['message', 'time', 'options', 'observe', 'enqueue', 'transports', 'transports/in-process'],
  terminus: ['observe', 'enqueue', 'relay'],
  // The consumer's side, beside the core: nothing of it knows this.
  inbox: [
    'message',
    'time',
    'options',
    'store',
    'transports',
    'transports/amqp',
    'transaction',
    'data-layers',
    'data-layers/drivers',
    'data-layers/tables',
    'data-layers/typeorm',
    'enqueue',
    'consumer',
    'payloads',
    'nest',
    'entry',
  ],
  // Idioms of Nest that applications have beside it: nothing of the core knows them.
  cqrs: ['enqueue'],
  'event-emitter': ['enqueue'],
  observable: ['observe', 'enqueue'],
  // Beside all: it loads the public entry point as an application does, and imports its types.
  cli: ['time', 'options', 'observe', 'doctor', 'nest', 'entry', 'inbox', 'data-layers/tables'],
  testing: [
    'payloads',
    'message',
    'time',
    'options',
    'store',
    'transports',
    'observe',
    'admin',
    'enqueue',
    'relay',
    'nest',
    'entry',
    'inbox',
    'payloads',
  ],
};
/** Files of lib/ itself that belong to a room. */
const ROOM_OF_FILE = {
  'outbox.errors.ts': 'errors',
  'outbox-message.ts': 'message',
  'outbox.options.ts': 'options',
  'outbox-data-layer.ts': 'options',
  'outbox.module.ts': 'entry',
  'outbox.tokens.ts': 'entry',
  'index.ts': 'entry',
};
/**
 * Packages that are the business of one room. `types`: files beside it that may name its types, as public signatures do. Nobody
 * else does, types included.
 */
const PACKAGES = {
  typeorm: {
    room: 'data-layers/typeorm',
    types: ['lib/outbox.options.ts', 'lib/outbox-data-layer.ts'],
  },
};
/**
 * Rooms beside the core, for operators and for tests: of the core they import what the public face exports, and these files. The list
 * may only shrink. What contracts of a store and of a transport check is the core itself.
 */
const LEAVES = [
  ...['cli', 'consumer', 'cqrs', 'doctor', 'event-emitter', 'inbox', 'observable', 'otel', 'prometheus', 'terminus'],
  'testing',
];
const CONTRACTS = /^lib\/testing\/(?:store|transport)-contract\//;
const LEAF_SEAMS = [
  'consumer/received-message.ts',
  'data-layers/find.ts',
  'data-layers/tables/index.ts',
  'doctor/unreached.ts',
  'enqueue/atomic-write.ts',
  'enqueue/tracing.ts',
  'inbox/steps.ts',
  'message/finished.ts',
  'message/headers.ts',
  'message/is-observable.ts',
  'message/uuid-v7.ts',
  'nest/enqueue-only.ts',
  'nest/overrides.ts',
  'nest/assemble.ts',
  'observe/paused.ts',
  'observe/plural.ts',
  'observe/redact/error-text.ts',
  'observe/redact/printable.ts',
  'observe/seen-relays.ts',
  'options/did-you-mean.ts',
  'options/factory-options.ts',
  'options/refuse.ts',
  'options/rules.ts',
  'options/text-checks.ts',
  'options/transport-option.ts',
  'options/transport-wrapper.ts',
  'payloads/gzip.ts',
  'store/diagnose/diagnose-store.ts',
  'store/executor.ts',
  'store/names.ts',
  'store/parked-store.ts',
  'store/partitions/partition-store.ts',
  'store/ready-store.ts',
  'store/sql.ts',
  'time/clock.ts',
  'time/duration.ts',
  'time/loop.ts',
  'time/untraced.ts',
  'transaction/current-transaction.ts',
  'transaction/data-layer.ts',
  'transaction/transaction-scope.ts',
  'transports/amqp/names.ts',
  'transports/envelope.ts',
  'transports/in-process/around-calls.ts',
  'transports/in-process/handlers.ts',
];
const SPLIT = ['store', 'transports', 'data-layers'];
const MAX_FILES = 25;
/** Loaded only when a relay needs them, so that an application without them starts. */
const OPTIONAL_PEERS = new Set(
  Object.entries(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).peerDependenciesMeta)
    .filter(([, { optional }]) => optional)
    .map(([name]) => name),
);
const IMPORT = /^\s*(?:import|export)\s+(type\s)?(?:[\w*{][^'";()]*?\sfrom\s+)?'([^']+)'/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*'([^']+)'/g;
/** The one place that knows MariaDB from MySQL. */
const CAPABILITIES = 'lib/store/mysql/capabilities.ts';
const PRODUCT = "'(?:PostgreSQL|MariaDB|MySQL)'";
const BRANCH_ON_PRODUCT = new RegExp(
  `(?:[!=]==|case) ${PRODUCT}|${PRODUCT} [!=]==|\\bproduct [!=]==|\\b(?:MariaDB|MySQL): |/mariadb/i?\\.test`,
);
/** Hosts that packages are downloaded from, and paths of somebody's machine: neither belongs into the project. */
const HOST = /https?:\/\/[\w.-]*(?:registry|repo1?\.|mirror|proxy|artifactory|nexus)[\w.-]*/i;
const MACHINE_PATH = /(?<![\w.])\/(?:work|root|home|Users)\/\w+/;

const problems = tableProblems();
const seen = new Set();
const open = openToLeaves();
const files = trackedFiles();
checkFolders(files.filter((file) => file.startsWith('lib/')));
for (const file of files) {
  const text = readFileSync(join(root, file), 'utf8');
  checkPlaces(file, text);
  if (/^lib\/.*\.ts$/.test(file)) checkLibrary(file, text);
}
for (const seam of LEAF_SEAMS)
  if (!seen.has(`lib/${seam}`))
    problems.push(`tools/check-layout.mjs: no leaf imports ${seam} any more: take it off the list`);
for (const problem of problems) console.error(problem);
if (problems.length > 0) console.error(`check-layout: ${problems.length} violation(s)`);
process.exitCode = problems.length > 0 ? 1 : 0;

/** Two rooms that may import each other are one room. */
function tableProblems() {
  return Object.entries(ROOMS).flatMap(([room, others]) =>
    others
      .filter((other) => !(other in ROOMS) || ROOMS[other].includes(room))
      .map((other) => `tools/check-layout.mjs: ${room} → ${other}: unknown, or they may import each other`),
  );
}

/** The entries of the package, and the files whose declarations its index exports. */
function openToLeaves() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.values(exports).flatMap(({ import: to }) => to?.default.replace('./dist/esm/', 'lib/') ?? []);
  const index = readFileSync(join(root, 'lib/index.ts'), 'utf8');
  const exported = [...index.matchAll(/from '\.\/([^']+)\.js'/g)].map(([, name]) => `lib/${name}.ts`);
  return new Set([...entries.map((file) => file.replace(/\.js$/, '.ts')), ...exported]);
}

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

function checkFolders(library) {
  const counts = new Map();
  for (const file of library) counts.set(posix.dirname(file), (counts.get(posix.dirname(file)) ?? 0) + 1);
  for (const [folder, count] of counts)
    if (count > MAX_FILES) problems.push(`${folder} has ${count} files, allowed are ${MAX_FILES}`);
}

function checkPlaces(file, text) {
  text.split('\n').forEach((line, index) => {
    if (HOST.test(line)) problems.push(`${file}:${index + 1} names a download host`);
    if (MACHINE_PATH.test(line)) problems.push(`${file}:${index + 1} holds an absolute path of a machine`);
  });
}

function checkLibrary(file, text) {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1');
  if (file !== CAPABILITIES && BRANCH_ON_PRODUCT.test(code))
    problems.push(`${file}: branches on a server's product: let it be a field of ${CAPABILITIES}`);
  const forbidden = [
    [/\bimport\.meta\b/, 'import.meta has no CommonJS form'],
    [/^await\s/m, 'top-level await has no CommonJS form'],
    [/^export \*/m, 'export * hides what is public'],
    [
      /^\s*(readonly |static |async )*#\w+/m,
      '#private: what nobody publishes is `private`, what is published `@internal`',
    ],
  ];
  for (const [pattern, why] of forbidden) if (pattern.test(code)) problems.push(`${file}: ${why}`);
  for (const { specifier, typeOnly } of importsOf(code)) checkImport(file, specifier, typeOnly);
}

function importsOf(code) {
  return [
    ...[...code.matchAll(IMPORT)].map((match) => ({ specifier: match[2], typeOnly: match[1] !== undefined })),
    ...[...code.matchAll(DYNAMIC_IMPORT)].map((match) => ({ specifier: match[1], typeOnly: true })),
  ];
}

function checkImport(file, specifier, typeOnly) {
  const owned = PACKAGES[packageOf(specifier)];
  if (!typeOnly && OPTIONAL_PEERS.has(packageOf(specifier)) && owned?.room !== roomOf(file))
    problems.push(`${file}: imports the optional peer ${specifier} eagerly; use import type and import()`);
  if (owned !== undefined && owned.room !== roomOf(file) && !(typeOnly && owned.types.includes(file)))
    problems.push(`${file}: only the room ${owned.room} imports ${specifier}, types included`);
  if (!specifier.startsWith('.')) return;
  const from = roomOf(file);
  const target = posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts');
  const to = roomOf(target);
  if (LEAVES.includes(from) && to !== from && !CONTRACTS.test(file) && !open.has(target)) {
    seen.add(target);
    if (!LEAF_SEAMS.includes(target.slice('lib/'.length)))
      problems.push(`${file}: a leaf imports ${specifier}, which the public face does not export`);
  }
  const row = ROOMS[from] ?? ROOMS[posix.join(posix.dirname(from), '*')];
  if (to !== from && to !== 'errors' && !row?.includes(to))
    problems.push(`${file}: the room ${from} imports ${specifier} of ${to}, which is not in its row`);
}

function packageOf(specifier) {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function roomOf(file) {
  const [, first, second, third] = file.split('/');
  if (second === undefined) return ROOM_OF_FILE[first] ?? first;
  return SPLIT.includes(first) && third !== undefined ? `${first}/${second}` : first;
}
