import { randomBytes } from 'node:crypto';
import { ClientRMQ } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import {
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type EncryptionContext,
  type PayloadEncryption,
} from '../../lib/index.js';
import { Applications, build, quiet, typeOrm, until } from '../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { QueueReader } from '../support/queue-reader.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { documentedEncryption } from './documented-encryption.js';

const aes = new (documentedEncryption())(new Map([['key-1', randomBytes(32)]]));
/** What a consumer of the broker has of it. */
const asDelivered = (context: Omit<EncryptionContext, 'transport' | 'options' | 'headers'>): EncryptionContext => ({
  ...context,
  ...{ transport: '', options: '{}', headers: '{}' },
});
/** Its ciphertext is text, as that of key services. */
const encryption: PayloadEncryption = {
  deliver: 'encrypted',
  async encrypt(plaintext, context) {
    const { keyId, ciphertext } = (await aes.encrypt(plaintext, asDelivered(context)))!;
    return { keyId, ciphertext: Buffer.from(Buffer.from(ciphertext).toString('base64')) };
  },
  decrypt: ({ keyId, ciphertext }, context) =>
    aes.decrypt({ keyId, ciphertext: Buffer.from(String(ciphertext), 'base64') }, asDelivered(context)),
};
const queueOptions = { durable: true };

describeWith(['postgres', 'rabbitmq'], 'encrypted payloads through ClientRMQ', () => {
  const applications = new Applications();
  let database: TestDatabase;
  let reader: QueueReader;
  beforeEach(async () => {
    database = await createTestDatabase('postgres');
    reader = await new QueueReader().start();
  });
  afterEach(async () => {
    await applications.close();
    await reader.stop();
    await database.drop();
  });

  it.each(['application/json', 'text/plain'])(
    'are bytes, whatever they are when they are in clear, with the id of the key: %s',
    async (contentType) => {
      const client = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue: reader.queue, queueOptions });
      const options = quiet({
        relay: 'manual',
        encryption,
        transports: { default: clientProxy({ client }) },
      });
      const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)]));
      const outbox = app.get(OutboxService);
      const payload = '{"card":"4111"}';
      await outbox.enqueueOutsideTransaction({ type: 'paid', key: 'k', payload: Buffer.from(payload), contentType });
      expect(await app.get(OutboxDispatcher).drain()).toMatchObject({ published: 1, dead: 0 });
      await until(() => reader.messages.length === 1);

      const { properties } = reader.messages[0]!;
      const headers = properties.headers as Record<string, string>;
      expect(headers).toMatchObject({ 'encryption-key-id': 'key-1', 'content-type': contentType });
      const [{ pattern, data }] = reader.packets() as [{ pattern: string; data: { type: string; data: number[] } }];
      expect(data).toMatchObject({ type: 'Buffer' });
      const sealed = { keyId: headers['encryption-key-id']!, ciphertext: Buffer.from(data.data) };
      const { messageId: id, type } = properties as { messageId: string; type: string };
      const context = { id, type, version: Number(headers['version']), topic: pattern, key: 'k', contentType };
      expect(String(await encryption.decrypt(sealed, asDelivered(context)))).toBe(payload);
    },
  );
});
