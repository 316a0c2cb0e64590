// @tier gate
import { randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import fc from 'fast-check';
import { DataSource } from 'typeorm';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type DeadLetterEvent,
  type OutboxMessage,
  type OutboxOptions,
  type PayloadEncryption,
} from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { Applications, build, quiet, typeOrm, until } from '../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import { CANARY, canariesIn } from './canaries.js';
import { documentedEncryption } from './documented-encryption.js';

const AesGcm = documentedEncryption();
const [KEY_1, KEY_2] = [randomBytes(32), randomBytes(32)];
const first = new AesGcm(new Map([['key-1', KEY_1]]));
const both = new AesGcm(new Map([['key-1', KEY_1], ['key-2', KEY_2]])); // prettier-ignore
const secret = { card: CANARY.payload, list: [CANARY.nested, 'ünï😀'] };
const plain = JSON.stringify(secret);

const applications = new Applications();
let database: TestDatabase;
let transport: RecordingTransport;
let handled: { event: unknown; message: OutboxMessage }[];

@Injectable()
class Handlers {
  @OnOutboxEvent({ type: 'local' })
  handle(event: unknown, message: OutboxMessage): void {
    handled.push({ event, message });
  }
  @OnOutboxEvent({ type: 'local.failing' })
  fail(event: unknown): void {
    throw new Error(`cannot charge ${JSON.stringify(event)}`);
  }
}

const start = (
  encryption: PayloadEncryption | undefined,
  more: Partial<OutboxOptions> = {},
): Promise<TestingModule> => {
  const options: Partial<OutboxOptions> = {
    relay: 'manual',
    defaultTransport: 'default',
    transports: { default: transport, other: new RecordingTransport(), local: inProcess() },
    onPublished: 'archive',
    retry: { initial: 1, max: 1, maxAttempts: 2 },
    ...(encryption === undefined ? {} : { encryption }),
    ...more,
  };
  return applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet(options))], [Handlers]));
};
const drain = (app: TestingModule) => app.get(OutboxDispatcher).drain();
const texts = (): string[] => transport.published.map(({ payload }) => String(payload));
/** Everything that stands in the tables. */
const stored = async (app: TestingModule): Promise<string> => {
  const rows = await Promise.all(
    ['ready', 'parked', 'archive'].map((table) => app.get(DataSource).query(`select * from outbox_${table}`)),
  );
  return JSON.stringify(rows.flat(), (_, value: unknown) => asHex(value));
};
/** Buffers have been turned by their `toJSON` before a replacer sees them. */
const asHex = (value: unknown): unknown => {
  const { type, data } = Object(value) as { type?: unknown; data?: unknown };
  return type === 'Buffer' ? Buffer.from(data as number[]).toString('hex') : value;
};

function onDatabase(kind: TestDatabase['kind'], tests: () => void): void {
  describeWith(kind, `on ${kind}`, () => {
    beforeEach(async () => {
      database = await createTestDatabase(kind);
      transport = new RecordingTransport();
      handled = [];
    });
    afterEach(async () => {
      await applications.close();
      await database.drop();
    });
    tests();
  });
}

describe.each(DATABASES)('encrypted payloads', (kind) => {
  onDatabase(kind, () => {
    it('are in clear nowhere at rest, and arrive as they were', async () => {
      const letters: DeadLetterEvent[] = [];
      const app = await start(first, { deadLetter: (letter) => void letters.push(letter) });
      const outbox = app.get(OutboxService);
      await outbox.enqueueOutsideTransaction([
        { type: 'sent', key: 'a', payload: secret, options: { custom: { a: 1 } } },
        { type: 'dead', key: 'b', payload: secret },
        { type: 'behind', key: 'b', payload: secret },
        { type: 'later', payload: secret, delay: 3_600_000 },
        { type: 'local', payload: secret, transport: 'local' },
        { type: 'local.failing', key: 'c', payload: secret, transport: 'local' },
      ]);
      const heal = transport.fail({ final: true, when: ({ type }) => type === 'dead' });
      expect(canariesIn(await stored(app))).toEqual([]);
      // A retry falls due a millisecond later, which a drain does not wait for.
      await until(async () => (await drain(app)) && (await outbox.stats()).total.dead === 2);
      const rows = await stored(app);
      expect(canariesIn(rows)).toEqual([]);
      expect(rows).toContain('cannot charge');
      expect(rows.match(/\$encryption/g)).toHaveLength(6);

      expect(texts()).toEqual([JSON.stringify(secret)]);
      expect(transport.published[0]).toMatchObject({ options: { custom: { a: 1 } }, encryptionKeyId: null });
      expect(handled).toMatchObject([{ event: secret }]);
      expect(JSON.parse(String(handled[0]?.message.payload))).toEqual(secret);
      expect(letters.map(({ message }) => message.encryptionKeyId)).toEqual(['key-1', 'key-1']);
      expect(letters.flatMap(({ message }) => canariesIn(String(message.payload)))).toEqual([]);

      await outbox.release('b');
      await outbox.requeue({ type: 'dead' });
      heal();
      await drain(app);
      expect(transport.published.map(({ type }) => type).sort()).toEqual(['behind', 'dead', 'sent']);
      expect(new Set(texts())).toEqual(new Set([JSON.stringify(secret)]));
    });

    it('J1: wait for a key that is missing, die of one that is wrong, and are published when it is back', async () => {
      const write = async (encryption: PayloadEncryption, type: string): Promise<void> => {
        const app = await start(encryption);
        await app.get(OutboxService).enqueueOutsideTransaction({ type, key: 'k', payload: { type } });
        await applications.close();
      };
      await write(first, 'old');
      await write(both, 'new');
      const second = new AesGcm(new Map([['key-2', KEY_2]]));
      const wrong = new AesGcm(new Map([['key-1', randomBytes(32)]]));
      for (const encryption of [second, undefined]) {
        const app = await start(encryption);
        const failed = app.get(OutboxService).events.once('failed');
        await drain(app);
        expect(await failed).toMatchObject({
          blame: 'transport',
          error: expect.stringMatching(/Nothing can be decrypted with key "key-1" now.*DECRYPTION_FAILED/),
        });
        const { dead, ready, waiting, blocked } = (await app.get(OutboxService).stats()).total;
        expect([dead, ready + waiting + blocked]).toEqual([0, 2]);
        await applications.close();
      }
      const app = await start(wrong);
      const dead = app.get(OutboxService).events.once('dead');
      await until(async () => (await drain(app)) && (await app.get(OutboxService).stats()).total.dead === 1);
      expect(await dead).toMatchObject({ type: 'old', attempts: 2, error: expect.stringMatching(/DECRYPTION_FAILED/) });
      expect(texts()).toEqual([]);
      await app.get(OutboxService).requeue({ type: 'old' });
      await applications.close();
      await drain(await start(both));
      expect(texts()).toEqual(['{"type":"old"}', '{"type":"new"}']);
    });

    it('come back byte by byte', async () => {
      // One of each: what encrypts knows neither the database nor who coordinates.
      const coordination = kind === 'postgres' ? 'rowLock' : 'buckets';
      const app = await start(both, { coordination, ordering: 'none' });
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.uint8Array({ maxLength: 2_000 }), { minLength: 20, maxLength: 40 }),
          async (all) => {
            transport.published.length = 0;
            const messages = all.map((payload, i) => ({ type: String(i), payload }));
            await app.get(OutboxService).enqueueOutsideTransaction(messages);
            await drain(app);
            const seen = new Map(
              transport.published.map(({ type, payload }) => [Number(type), payload?.toString('hex')]),
            );
            expect(all.map((_, i) => seen.get(i))).toEqual(all.map((payload) => Buffer.from(payload).toString('hex')));
          },
        ),
        { numRuns: 4 },
      );
    });
  });
});

describe('encrypted payloads', () => {
  onDatabase('postgres', () => {
    it('do not decrypt in another row', async () => {
      const app = await start(first);
      await app
        .get(OutboxService)
        .enqueueOutsideTransaction(['one', 'two'].map((type) => ({ type, key: type, payload: { type } })));
      const from = `(select payload from (select payload from outbox_ready where type = 'one') one)`;
      await app.get(DataSource).query(`update outbox_ready set payload = ${from} where type = 'two'`);
      await drain(app);
      expect(texts()).toEqual(['{"type":"one"}']);
      expect((await app.get(OutboxService).stats()).total).toMatchObject({ dead: 1 });
    });

    it('are what a broker gets when it is told so, with the id of the key', async () => {
      const app = await start(
        Object.assign(new AesGcm(new Map([['key-1', KEY_1]])), { deliver: 'encrypted' as const }),
      );
      const message = { type: 'local', payload: secret, headers: { h: 'v' }, transport: ['default', 'local'] };
      await app.get(OutboxService).enqueueOutsideTransaction(message);
      await drain(app);
      const [published] = transport.published as [OutboxMessage];
      expect({ ...published.headers }).toEqual({ h: 'v', 'encryption-key-id': 'key-1' });
      const ciphertext = published.payload as Buffer;
      expect(canariesIn(ciphertext.toString('latin1'))).toEqual([]);
      const { id, type, version, topic, key, contentType } = published;
      const place = { transport: 'default', options: '{}', headers: '{"h":"v"}' };
      const context = { id, type, version, topic, key, contentType, ...place };
      expect(String(await first.decrypt({ keyId: 'key-1', ciphertext }, context))).toBe(plain);
      expect(handled).toMatchObject([{ event: secret }]);
    });

    it('are waited for by the commit, one write after the other', async () => {
      const order: string[] = [];
      const slow: PayloadEncryption = {
        async encrypt(plaintext, context) {
          // The first takes longest: without a turn for each it would come last.
          for (let turns = context.type === '0' ? 50 : 1; turns > 0; turns--) await new Promise(setImmediate);
          order.push(context.type);
          return first.encrypt(plaintext, context);
        },
        decrypt: async (encrypted, context) => first.decrypt(encrypted, context),
      };
      const app = await start(slow);
      const outbox = app.get(OutboxService);
      const unawaited: Promise<unknown>[] = [];
      await outbox.transaction(async () => {
        for (const type of ['0', '1', '2']) unawaited.push(outbox.enqueue({ type, key: 'k', payload: type }));
      });
      await Promise.all(unawaited);
      expect(order).toEqual(['0', '1', '2']);
      await drain(app);
      expect(texts()).toEqual(['"0"', '"1"', '"2"']);
    });

    it('are refused as a whole when they cannot be encrypted, and the transaction goes on', async () => {
      const broken: PayloadEncryption = {
        encrypt: (plaintext, context) => {
          if (context.type === 'throws') throw new Error(`no key for ${Buffer.from(plaintext).toString()}`);
          if (context.type === 'public') return null;
          return { keyId: context.type === 'no.id' ? 'ü' : 'id', ciphertext: plaintext };
        },
        decrypt: ({ ciphertext }) => ciphertext,
      };
      const app = await start(broken);
      const outbox = app.get(OutboxService);
      await outbox.transaction(async () => {
        for (const type of ['throws', 'no.id']) {
          const refused = await outbox
            .enqueue([
              { type: 'fine', payload: 1 },
              { type, payload: secret },
            ])
            .catch((e) => e);
          expect(refused).toMatchObject({ code: 'ENCRYPTION_FAILED' });
          expect(canariesIn(`${refused.stack} ${refused.cause?.stack}`)).toEqual([]);
        }
        await outbox.enqueue([
          { type: 'public', payload: 'in clear' },
          { type: 'tombstone', payload: null },
        ]);
      });
      await until(async () => (await outbox.stats()).total.ready === 2);
      await drain(app);
      expect(transport.published.map(({ payload }) => payload && String(payload)).sort()).toEqual(['"in clear"', null]);
    });
  });
});
