// @tier gate
import { randomBytes } from 'node:crypto';
import type { TestingModule } from '@nestjs/testing';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  OutboxCleaner,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  OutboxTransport,
  OutboxUnlocker,
  PUBLISHED,
  type OutboxMessage,
  type OutboxOptions,
  type PlainMessage,
  type PublishResult,
} from '../../lib/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { outboxEntities, outboxMigrations, outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { Applications, build, countedHealth, quiet, typeOrm } from '../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith, type DatabaseKind, DATABASES } from '../support/services.js';
import { recordSqlTexts } from './sql-text.js';

/** Each ends a literal, an identifier, a comment, an array, a JSON text or a parameter somewhere. */
const ATTACKS = [
  `'; drop table outbox_ready; -- `,
  `"; drop table outbox_ready; -- `,
  '`; drop table outbox_ready; -- ',
  `\\'; drop table outbox_ready; -- `,
  `\\`,
  `縗'; drop table outbox_ready; -- `, // its last byte eats a backslash in some charsets
  '? ?? $1 $$ :name @@version %s',
  '$outbox$ end $outbox$',
  `{"a",null}`,
  `"]}','`,
  'null',
  '*/ /*! drop table outbox_ready */ #',
  `' or '1'='1`,
  'line\nbreak\r\ttab',
];

/** Publishes, but for what says otherwise; errors and progress carry the message's own texts. */
class Repeating extends OutboxTransport {
  override readonly receipt = 'broker';
  readonly published: OutboxMessage[] = [];

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    return batch.map((message) => {
      const { refuse } = message.headers;
      if (refuse === undefined) {
        this.published.push(message);
        return PUBLISHED;
      }
      const error = new Error(`refused ${message.type}`);
      return { ok: false, blame: 'message', error, final: refuse === 'dead', progress: message.type };
    });
  }
}

const applications = new Applications();
let database: TestDatabase;

describe.each(DATABASES)('SQL on %s', (kind) => {
  describeWith(kind, 'and what users write', () => {
    let transport: Repeating;
    beforeEach(async () => {
      database = await createTestDatabase(kind);
      transport = new Repeating();
    });
    afterEach(async () => {
      await applications.close();
      await database.drop();
    });
    const start = (options: Partial<OutboxOptions> = {}, at = database): Promise<TestingModule> =>
      applications.start(
        build([
          typeOrm(at),
          OutboxModule.forRoot(
            quiet({ relay: 'manual', transports: { default: transport }, onPublished: 'archive', ...options }),
          ),
        ]),
      );

    it('takes hostile texts in every place as texts, and gives them back as they were', async () => {
      const one = { ...database, options: { ...database.options, poolSize: 1 } as DataSourceOptions };
      const app = await start({ retry: { initial: 1, max: 1, errorHistory: 3 } }, one);
      const outbox = app.get(OutboxService);
      await app.get(DataSource).query(session(kind));
      const dead = await everywhere(outbox, 'dead');
      await app.get(OutboxDispatcher).drain();
      const rows = await app.get(DataSource).query(`select type, last_error from outbox_messages where state = 'dead'`);
      expect(new Map(rows.map((row: { type: string; last_error: string }) => [row.type, row.last_error]))).toEqual(
        new Map(ATTACKS.map((attack) => [attack, expect.stringContaining(inOneLine(`refused ${attack}`))])),
      );
      const state = ['dead', 'waiting'] as const; // what is requeued waits
      for (const [i, attack] of ATTACKS.entries()) {
        for (const filter of [{ key: attack }, { topic: attack }, { type: attack }])
          expect((await outbox.requeue({ ...filter, state })).done).toBe(1);
        expect((await outbox.discard({ ids: [dead[i] as string], key: attack, state })).changed).toEqual([dead[i]]);
      }
      const ids = await everywhere(outbox);
      expect(await app.get(OutboxDispatcher).drain()).toMatchObject({ published: ATTACKS.length });
      const seen = new Map(transport.published.map((message) => [message.id, message]));
      for (const [i, attack] of ATTACKS.entries()) {
        const message = seen.get(ids[i] as string) as OutboxMessage;
        expect(message).toMatchObject({ topic: attack, key: attack, type: attack, contentType: `text/${attack}` });
        expect(String(message.payload)).toBe(attack);
        expect({ ...message.headers }).toEqual({ [headerName(attack)]: [attack, attack] });
        expect(message.options).toEqual({ [`x${attack}`]: { [attack]: attack } });
      }
      expect((await outbox.stats()).total).toMatchObject({ ready: 0, dead: 0, blocked: 0 });
    });

    it.each(['buckets', 'rowLock', 'leader'] as const)(
      'has no value in the text of a statement: %s',
      async (coordination) => {
        const { texts, stop } = recordSqlTexts(kind);
        try {
          await life(await start({ coordination, ordering: coordination === 'rowLock' ? 'none' : 'key' }));
        } finally {
          stop();
        }
        const all = [...texts].filter((text) => !/^(create|drop) database/i.test(text));
        expect(all.length).toBeGreaterThan(30);
        expect(all.filter((text) => /canary|[0-9a-f]{8}-[0-9a-f]{4}-/i.test(text))).toEqual([]);
      },
    );

    it('quotes the names that the connection brings', async () => {
      const at = await hostileHome(kind, `out"box\`te'st;-- \\ $1 ${randomBytes(4).toString('hex')}`);
      try {
        const app = await start({}, at);
        const id = await app.get(OutboxService).enqueueOutsideTransaction({ type: 't', key: 'k', payload: 1 });
        await app.get(OutboxDispatcher).drain();
        expect(transport.published.map((message) => message.id)).toEqual([id]);
        expect(await countedHealth(app.get(OutboxService))).toMatchObject({ status: 'up' });
        await applications.close();
      } finally {
        await at.drop();
      }
    });

    it('refuses a name in which a parameter would be seen', async () => {
      const at = await hostileHome(kind, `what?${randomBytes(4).toString('hex')}`);
      try {
        await expect(start({}, at)).rejects.toMatchObject({
          code: 'INVALID_OPTIONS',
          message: expect.stringMatching(/what\?.*database\.schema/),
        });
      } finally {
        await at.drop();
      }
    });
  });
});

describe('names in options', () => {
  const hostile = [
    'a"b',
    'a`b',
    "a'b",
    'a;b',
    'a\0b',
    'a b',
    'a\nb',
    'a.b',
    'A',
    'é',
    '1a',
    '$a',
    'a?',
    '',
    'x'.repeat(64),
  ];

  it.each(hostile)('%j is no schema and no prefix', (name) => {
    for (const names of [{ prefix: name }, { schema: name }]) {
      const refused = expect.objectContaining({
        code: 'INVALID_OPTIONS',
        message: expect.stringMatching(/lower-case letters, digits and _/),
      });
      expect(failure(() => outboxSql('postgres', names))).toEqual(refused);
      expect(failure(() => outboxSql('mysql', names))).toEqual(refused);
      expect(failure(() => outboxMigrations(names))).toEqual(refused);
      expect(failure(() => outboxEntities(names))).toEqual(refused);
    }
  });
});

function failure(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

/** As a message's error reads in a row: control characters are blanks. */
const inOneLine = (text: string): string => text.replace(/[\u0000-\u001f]+/g, ' ').trim();
/** Header names hold no control characters. */
const headerName = (text: string): string => inOneLine(text);

/** A session in which backslashes and quotes mean something else than by default. */
function session(kind: DatabaseKind): string {
  return kind === 'postgres'
    ? 'set standard_conforming_strings = off'
    : `set session sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'`;
}

function everywhere(outbox: OutboxService, refuse?: string): Promise<string[]> {
  return outbox.enqueueOutsideTransaction(
    ATTACKS.map((attack) => ({
      type: attack,
      topic: attack,
      key: attack,
      payload: attack,
      contentType: `text/${attack}`,
      headers: { ...(refuse === undefined ? { [headerName(attack)]: [attack, attack] } : { refuse }) },
      options: { [`x${attack}`]: { [attack]: attack } },
      ...(refuse === undefined ? { dedupKey: attack } : {}),
    })),
  );
}

/** Everything that writes or reads user values, with `canary` in each of them. */
async function life(app: TestingModule): Promise<void> {
  const outbox = app.get(OutboxService);
  const of = (n: number, more: Partial<PlainMessage> = {}): PlainMessage => ({
    type: `canary-type-${n}`,
    topic: 'canary-topic',
    key: `canary-key-${n % 2}`,
    payload: { card: 'canary-payload' },
    headers: { 'canary-name': 'canary-header' },
    options: { 'canary-kind': { a: 'canary-option' } },
    ...more,
  });
  const id = uuidV7();
  await outbox.enqueueOutsideTransaction([of(1), of(2, { id }), of(3, { dedupKey: 'canary-dedup' })]);
  await outbox.enqueueOutsideTransaction(of(4, { dedupKey: 'canary-dedup' }));
  await expect(outbox.enqueueOutsideTransaction(of(5, { id }))).rejects.toMatchObject({ code: 'DUPLICATE_MESSAGE' });
  await outbox.enqueueOutsideTransaction(of(6), { delay: 1 });
  await outbox.enqueueOutsideTransaction(of(7, { key: null, contentType: 'text/canary', payload: 'canary' }));
  await outbox.enqueueOutsideTransaction([
    of(8, { headers: { refuse: 'dead' } }),
    of(9, { headers: { refuse: 'once' } }),
  ]);
  await app.get(OutboxDispatcher).drain();
  await outbox.requeue({ type: 'canary-type-8' });
  await app.get(OutboxDispatcher).runOnce();
  await outbox.cancel({ topic: 'canary-topic', key: 'canary-key-1' });
  await outbox.release('canary-key-0');
  await outbox.discard({ type: 'canary-type-8' });
  await outbox.discard({ ids: [id] });
  await outbox.stats();
  await outbox.health();
  await app.get(OutboxUnlocker).runOnce();
  await app.get(OutboxCleaner).runOnce({ before: new Date(), includeDead: true });
}

/** A schema or database of this name, which is where the connection is at home. */
async function hostileHome(kind: DatabaseKind, name: string): Promise<TestDatabase> {
  const admin = await new DataSource(database.options).initialize();
  const quoted = kind === 'postgres' ? `"${name.replaceAll('"', '""')}"` : `\`${name.replaceAll('`', '``')}\``;
  await admin.query(`create ${kind === 'postgres' ? 'schema' : 'database'} ${quoted}`);
  await admin.destroy();
  const { hostname, port, username, password } = new URL(database.url);
  const credentials = { host: hostname, port: Number(port), username, password: decodeURIComponent(password) };
  const options =
    kind === 'postgres'
      ? { ...database.options, schema: name }
      : { type: 'mariadb', ...credentials, database: name, timezone: 'Z' };
  return {
    ...database,
    options: options as DataSourceOptions,
    drop: async () => {
      const again = await new DataSource(database.options).initialize();
      await again.query(
        `drop ${kind === 'postgres' ? 'schema' : 'database'} ${quoted}${kind === 'postgres' ? ' cascade' : ''}`,
      );
      await again.destroy();
    },
  };
}
