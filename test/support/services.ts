import { spawnSync } from 'node:child_process';

/**
 * Where the servers of this test run are. `tools/test.mjs` finds or starts them and sets the variables; by hand, export them.
 * A service that is missing makes its tests skipped, or failed when OUTBOX_TEST_REQUIRE is `all` or names it.
 */
export const DATABASES = ['postgres', 'mariadb', 'mysql'] as const;
/** They have one store, and differ in `lib/store/mysql/capabilities.ts`. */
export const MYSQL_FAMILY = ['mariadb', 'mysql'] as const;
export type DatabaseKind = (typeof DATABASES)[number];
export const dialectOf = (kind: DatabaseKind): 'postgres' | 'mysql' => (kind === 'postgres' ? 'postgres' : 'mysql');
export const BROKERS = ['rabbitmq', 'kafka', 'redis', 'mqtt', 'nats', 'sqs'] as const;
export type Service = DatabaseKind | (typeof BROKERS)[number];
/** What a test starts by itself, where it is installed; `mount`: where it may. */
export type Program = 'pgbouncer' | 'debezium' | 'mount' | 'promtool' | 'prometheus';

const VARIABLES: Record<Service, string> = {
  postgres: 'OUTBOX_TEST_POSTGRES_URL', // postgres://user:password@host:port/database, may create databases
  mariadb: 'OUTBOX_TEST_MARIADB_URL', // mysql://user:password@host:port/database, may create databases
  mysql: 'OUTBOX_TEST_MYSQL_URL', // mysql://user:password@host:port/database, may create databases; 8.0.31
  rabbitmq: 'OUTBOX_TEST_RABBITMQ_URL', // amqp://user:password@host:port
  kafka: 'OUTBOX_TEST_KAFKA_BROKERS', // host:port,host:port
  redis: 'OUTBOX_TEST_REDIS_URL', // redis://host:port
  mqtt: 'OUTBOX_TEST_MQTT_URL', // mqtt://host:port
  nats: 'OUTBOX_TEST_NATS_URL', // nats://host:port
  sqs: 'OUTBOX_TEST_SQS_URL', // http://host:port, of a server that speaks the protocol of SQS
};

export function serviceUrl(service: Service): string | undefined {
  return process.env[VARIABLES[service]] || undefined;
}

export function requiredUrl(service: Service): string {
  const url = serviceUrl(service);
  if (url === undefined) throw new Error(`${VARIABLES[service]} is not set: no ${service} for this test run`);
  return url;
}

function isRequired(service: Service | Program): boolean {
  const required = (process.env['OUTBOX_TEST_REQUIRE'] ?? '').split(',');
  return required.includes('all') || required.includes(service);
}

/** `describe` for tests that need real servers. */
export function describeWith(services: Service | readonly Service[], name: string, body: () => void): void {
  const missing = [services].flat().filter((service) => serviceUrl(service) === undefined);
  describeUnlessMissing(missing, name, body);
}

/** The same tests on each database; `beside`: what else they need. */
export function describeOnEach(beside: readonly Service[], name: string, body: (kind: DatabaseKind) => void): void {
  for (const kind of DATABASES) describeWith([kind, ...beside], `${name}, on ${kind}`, () => body(kind));
}

/** In the matrix: what takes more time there than the gate has. */
export const IS_WHOLE = process.env['OUTBOX_TEST_WHOLE'] === 'true';

/** What hangs on no statement of the server: on MySQL in the matrix. */
export const FEWER_DATABASES: readonly DatabaseKind[] = IS_WHOLE ? DATABASES : ['postgres', 'mariadb'];

export function describeOnFewer(beside: readonly Service[], name: string, body: (kind: DatabaseKind) => void): void {
  for (const kind of FEWER_DATABASES) describeWith([kind, ...beside], `${name}, on ${kind}`, () => body(kind));
}

export function describeOnMysqlFamily(name: string, body: (kind: (typeof MYSQL_FAMILY)[number]) => void): void {
  for (const kind of MYSQL_FAMILY) describeWith(kind, `${name}, on ${kind}`, () => body(kind));
}

/**
 * The one place that skips: on a machine that lacks a server its title says which; where it is required, as in the gate, the
 * tests run, and fail.
 */
export function describeUnlessMissing(missing: readonly (Service | Program)[], name: string, body: () => void): void {
  if (missing.length === 0 || missing.some(isRequired)) describe(name, body);
  else describe.skip(`${name} (no ${missing.join(', ')})`, body);
}

/** What is installed from the registry of npm, as a user does it. Packages that npm has in its cache are not enough. */
export function describeWithRegistry(name: string, body: () => void): void {
  const found = spawnSync('npm', ['ping'], { shell: process.platform === 'win32', timeout: 60_000 }).status === 0;
  if (found) describe(name, body);
  else describe.skip(`${name} (no registry of npm)`, body);
}
