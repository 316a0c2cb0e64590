// npm start [-- <sample>] [-- arguments]: builds what is needed, finds or starts the servers, runs one sample.
//   npm start                            01-quick-start
//   npm start -- 02-kafka                another one
//   npm start -- 11-brokers redis        the one of several brokers, with this one
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { transformSync } from '@swc/core';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);

/** What a sample may take to end after a signal. */
const LAST_WORDS = 60_000;
/** What each sample needs, and the variable in which it looks for it. */
const NEEDS = {
  '01-quick-start': { DATABASE_URL: 'postgres' },
  '02-kafka': { DATABASE_URL: 'postgres', KAFKA_BROKERS: 'kafka' },
  '03-rabbitmq': { DATABASE_URL: 'postgres', RABBITMQ_URL: 'rabbitmq' },
  '04-worker-and-api': { MARIADB_URL: 'mariadb', RABBITMQ_URL: 'rabbitmq' },
  '05-nest-consumer': { DATABASE_URL: 'postgres', RABBITMQ_URL: 'rabbitmq' },
  '06-mysql-kafka': { MYSQL_URL: 'mysql', KAFKA_BROKERS: 'kafka' },
  '07-prisma': { DATABASE_URL: 'postgres', RABBITMQ_URL: 'rabbitmq' },
  '08-drizzle': { DATABASE_URL: 'postgres' },
  '09-inbox': { DATABASE_URL: 'postgres', RABBITMQ_URL: 'rabbitmq' },
  '10-avro-protobuf': { DATABASE_URL: 'postgres' },
  '11-brokers': { DATABASE_URL: 'postgres', BROKER_URL: process.argv[3] ?? 'nats' },
};

process.chdir(root);
const servers = [];
const interruption = new AbortController();
const run = start(process.argv.slice(2)).catch((error) => {
  console.error(error instanceof Error ? error.message : error);
  return 1;
});
// A sample cleans up and ends on a signal; what was started for it is stopped after it, in any case.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    if (!interruption.signal.aborted) setTimeout(() => end(130), LAST_WORDS);
    interruption.abort(new Error(`ended by ${signal}`));
  });
}
await end(await run);

async function end(code) {
  for (const server of servers.splice(0).reverse()) await server.stop();
  process.exit(code);
}

async function start(argv) {
  const named = Object.hasOwn(NEEDS, argv[0] ?? '');
  const [name, args] = named ? [argv[0], argv.slice(1)] : ['01-quick-start', argv];
  await generate(join(here, name));
  for (const sample of new Set(['01-quick-start', name])) transpile(sample);
  await Promise.all([build(), ...Object.entries(NEEDS[name]).map(provideFor)]);
  const { main } = await import(pathToFileURL(join(here, name, 'dist', 'main.js')).href);
  return main(args, interruption.signal);
}

async function provideFor([variable, kind]) {
  process.env[variable] ||= await server(kind);
}

async function build() {
  if (!existsSync(join(root, 'dist', 'esm', 'package.json'))) console.log('building, once …');
  const builder = spawn(process.execPath, [join(root, 'tools', 'build.mjs'), '--if-stale'], { stdio: 'inherit' });
  const [exit] = await once(builder, 'exit');
  if (exit !== 0) throw new Error('the build failed');
}

/** Prisma makes the sample's client of its schema, in two seconds; only its `migrate` would need the engine that it downloads. */
async function generate(sample) {
  const [schema, client] = ['prisma/schema.prisma', 'src/generated/client.ts'].map((file) => join(sample, file));
  if (!existsSync(schema) || (existsSync(client) && statSync(client).mtimeMs > statSync(schema).mtimeMs)) return;
  const prisma = join(root, 'node_modules', 'prisma', 'build', 'index.js');
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };
  const generator = spawn(process.execPath, [prisma, 'generate', '--no-hints'], { cwd: sample, env, stdio: 'inherit' });
  const [exit] = await once(generator, 'exit');
  if (exit !== 0) throw new Error('prisma generate failed');
}

/** src/*.ts → dist/*.js. Types are checked elsewhere; Node 20 cannot run TypeScript by itself. */
function transpile(sample) {
  const source = join(here, sample, 'src');
  for (const entry of readdirSync(source, { recursive: true })) {
    if (!entry.endsWith('.ts')) continue;
    const target = join(here, sample, 'dist', entry.replace(/ts$/, 'js'));
    const code = compile(join(source, entry));
    // A process that runs meanwhile never reads half a file.
    if (existsSync(target) && readFileSync(target, 'utf8') === code) continue;
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(`${target}.${process.pid}`, code);
    renameSync(`${target}.${process.pid}`, target);
  }
}

function compile(file) {
  return transformSync(readFileSync(file, 'utf8'), {
    filename: file,
    swcrc: false,
    sourceMaps: 'inline',
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true },
    },
    module: { type: 'es6' },
  }).code;
}

/** The URL of a server: for PostgreSQL the embedded one, so that nothing at all has to be there; else what the tests use. */
async function server(kind) {
  if (kind === 'postgres') {
    const file = join(here, '01-quick-start', 'dist', 'embedded-postgres.js');
    const { startEmbeddedPostgres } = await import(pathToFileURL(file).href);
    return keep(await startEmbeddedPostgres({ password: true }));
  }
  const { provide } = await import('../tools/services/provide.mjs');
  const { SERVICES } = await import('../tools/services/all.mjs');
  const service = SERVICES.find(({ name }) => name === kind);
  if (service === undefined) throw new Error(`There is no server called ${kind}.`);
  const found = await provide(service);
  if (found.url === undefined) {
    const variables = Object.entries(NEEDS).flatMap(([, needs]) => Object.entries(needs));
    const [variable] = variables.find(([, needed]) => needed === kind);
    throw new Error(`This sample needs ${kind}: set ${variable}. (${found.missing.join('; ')})`);
  }
  return keep(found);
}

function keep(found) {
  servers.push(found);
  return found.url;
}
