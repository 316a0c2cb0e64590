// @tier gate
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { TestTopics } from '../support/kafka.js';
import { startFile } from '../support/own-process.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { DATABASES, describeWith, requiredUrl } from '../support/services.js';
import { CANARY, canariesIn } from './canaries.js';
import type { CanarySettings } from './canary-process.js';

describe('what looks for secrets', () => {
  it.each(Object.entries(CANARY))('finds %s in every form', (name, value) => {
    const plain = String(value);
    const forms = [plain, plain.toUpperCase(), Buffer.from(plain).toString('hex')];
    for (const shift of ['', 'a', 'ab', 'abc']) forms.push(Buffer.from(`${shift}${plain}`).toString('base64'));
    for (const form of forms) expect(canariesIn(`before${form}after`)).toEqual([name]);
    expect(canariesIn('nothing')).toEqual([]);
  });
});

describeWith([...DATABASES, 'rabbitmq', 'kafka'], 'secrets', () => {
  const topics = new TestTopics();
  const outputs = new Map<string, Promise<string>>();
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    await topics.start();
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const queue = await observer.queue();
    const smallTopic = await topics.create(1, { 'max.message.bytes': '1000' });
    const broker = { rabbitmq: requiredUrl('rabbitmq'), kafka: requiredUrl('kafka'), queue, smallTopic };
    // Side by side: each spends most of its time waiting.
    for (const kind of DATABASES) outputs.set(kind, onDatabase(kind, broker));
  });
  afterAll(async () => {
    await Promise.allSettled(outputs.values());
    await observer.close();
    await topics.stop();
  });

  it.each(DATABASES)(
    'are in no output, whatever fails: %s',
    async (kind) => {
      const output = (await outputs.get(kind)) as string;
      expect(output.match(/^=== the test itself failed[^=]*/m)?.[0]).toBeUndefined();
      expect(output).toContain('=== the end');
      expect(output.match(/^=== failure/gm)?.length).toBeGreaterThan(30);
      expect(found(output)).toEqual([]);
    },
    600_000,
  );
});

async function onDatabase(
  kind: TestDatabase['kind'],
  broker: Omit<CanarySettings, 'database' | 'admin'>,
): Promise<string> {
  const database = await createTestDatabase(kind);
  const user = await owner(database);
  try {
    return await run({ ...broker, database: user.options, admin: database.options });
  } finally {
    await user.drop();
  }
}

/** A database user with a password that must not be seen, who may do everything in this database. */
async function owner({ kind, options, url, drop }: TestDatabase) {
  const admin = await new DataSource(options).initialize();
  const database = new URL(url).pathname.slice(1);
  const name = `outbox_canary_${database.slice(-12)}`;
  const [create, grant, remove, ...settings] =
    kind === 'postgres'
      ? [
          `create role ${name} login password '${CANARY.databasePassword}'`,
          `alter database ${database} owner to ${name}`,
          `drop role ${name}`,
          // Errors of the server quote what their statement was given.
          `alter role ${name} set log_parameter_max_length_on_error = -1`,
        ]
      : [
          `create user '${name}'@'%' identified by '${CANARY.databasePassword}'`,
          `grant all on ${database}.* to '${name}'@'%'`,
          `drop user '${name}'@'%'`,
        ];
  await admin.query(create);
  for (const statement of [grant, ...settings]) await admin.query(statement);
  if (kind === 'postgres') await admin.query(`alter schema public owner to ${name}`);
  await admin.destroy();
  const own = new URL(url);
  own.username = name;
  own.password = CANARY.databasePassword;
  return {
    options: { ...options, url: own.href } as DataSourceOptions & { url: string },
    async drop() {
      await drop();
      const server = await new DataSource({ ...options, url: requiredUrl(kind) } as DataSourceOptions).initialize();
      await server.query(remove).finally(() => server.destroy());
    },
  };
}

async function run(settings: CanarySettings): Promise<string> {
  const variables = { CANARY: JSON.stringify(settings), NO_COLOR: '1' };
  const how = { options: ['--enable-source-maps'], pipes: true };
  const child = startFile('test/security/canary-process.ts', variables, how);
  const [out, errors] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')]);
  return `${out}\n=== stderr\n${errors}`;
}

/** Sections with secrets, and which. */
function found(output: string): string[] {
  return output
    .split(/^=== /m)
    .map((section) => ({ section, canaries: canariesIn(section) }))
    .filter(({ canaries }) => canaries.length > 0)
    .map(({ section, canaries }) => `${canaries.join(', ')} in ${section.slice(0, 3_000)}`);
}
