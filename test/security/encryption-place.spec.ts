import { randomBytes } from 'node:crypto';
import type { TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService, type PayloadEncryption } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { Applications, build, quiet, typeOrm, until } from '../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import { documentedEncryption } from './documented-encryption.js';

const AesGcm = documentedEncryption();
const KEYS = new Map([['key-1', randomBytes(32)]]);
const secret = { card: '4111111111111111' };
const plain = JSON.stringify(secret);

describe.each(DATABASES)('encrypted payloads', (kind) => {
  const keyColumn = kind === 'postgres' ? 'key' : '`key`';
  describeWith(kind, `on ${kind}`, () => {
    const applications = new Applications();
    let database: TestDatabase;
    let transport: RecordingTransport;
    let other: RecordingTransport;
    const start = (more: Pick<PayloadEncryption, 'required'> = {}): Promise<TestingModule> => {
      const options = quiet({
        relay: 'manual',
        defaultTransport: 'default',
        transports: { default: transport, other },
        onPublished: 'archive',
        retry: { initial: 1, max: 1, maxAttempts: 2 },
        encryption: Object.assign(new AesGcm(KEYS), more),
      });
      return applications.start(build([typeOrm(database), OutboxModule.forRoot(options)]));
    };
    const drain = (app: TestingModule) => app.get(OutboxDispatcher).drain();
    const texts = (): string[] => transport.published.map(({ payload }) => String(payload));
    beforeEach(async () => {
      database = await createTestDatabase(kind);
      [transport, other] = [new RecordingTransport(), new RecordingTransport()];
    });
    afterEach(async () => {
      await applications.close();
      await database.drop();
    });

    it('J4: do not decrypt where they were not meant to go: another destination, transport, headers', async () => {
      const app = await start();
      const outbox = app.get(OutboxService);
      const options = { custom: { to: 'x', b: [1, { d: 1, c: 'ü' }] } };
      const message = { type: 'card', payload: secret, options, headers: { b: '1', a: Buffer.from([255]) } };
      await outbox.enqueueOutsideTransaction({ ...message, transport: ['default', 'other'] });
      await drain(app);
      expect([texts(), other.published.map(({ payload }) => String(payload))]).toEqual([[plain], [plain]]);

      const columns = `id, transport, bucket, topic, ${keyColumn}, type, version, content_type, headers, options, payload`;
      const copy = (what: string, to: string): string =>
        `insert into outbox_ready (${columns}) select ${columns.replace(what, to)} from outbox_archive where transport = 0`;
      const escaped = kind === 'postgres' ? String.raw`'\u0024encryption'` : String.raw`'\\u0024encryption'`;
      for (const [column, changed] of [
        ['options', `replace(options, '"x"', '"y"')`],
        ['options', `replace(options, '{"custom"', '{"rabbitmq":{"exchange":""},"custom"')`],
        ['options', `replace(replace(options, '"x"', '"y"'), '$encryption', ${escaped})`],
        ['headers', `replace(headers, '"1"', '"2"')`],
        ['headers', 'null'],
        ['transport', '1'],
      ] as const) {
        await app.get(DataSource).query(copy(column, changed));
        await until(async () => (await drain(app)) && (await outbox.stats()).total.dead === 1);
        expect([column, texts().length, other.published.length]).toEqual([column, 1, 1]);
        await outbox.discard({ type: 'card' });
      }
      await app.get(DataSource).query(copy('', '')); // as it was: a replay
      await drain(app);
      expect(texts()).toEqual([plain, plain]);
    });

    it('J5: die in clear where they must be encrypted, whoever wrote them', async () => {
      const required: NonNullable<PayloadEncryption['required']> = ({ type }) => type === 'card';
      const app = await start({ required });
      const outbox = app.get(OutboxService);
      const dead = outbox.events.once('dead');
      const row = (type: string): string => `('t', 'k', '${type}', '{"card":"forged"}', '{"a":"\u0024encryption"}')`;
      const table = kind === 'postgres' ? 'outbox_messages' : 'outbox_ready';
      const columns = `(topic, ${keyColumn}, type, payload, options)`;
      await app.get(DataSource).query(`insert into ${table} ${columns} values ${row('card')}, ${row('else')}`);
      await outbox.enqueueOutsideTransaction({ type: 'card', payload: secret });
      await drain(app);
      expect(await dead).toMatchObject({ attempts: 1, error: expect.stringMatching(/in clear.*DECRYPTION_FAILED/) });
      await outbox.release('k');
      await drain(app);
      expect(new Set(texts())).toEqual(new Set([plain, '{"card":"forged"}']));
      expect(transport.published.map(({ type }) => type).sort()).toEqual(['card', 'else']);
    });
  });
});
