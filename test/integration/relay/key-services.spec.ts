import { DataSource } from 'typeorm';
import {
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  OutboxUndecryptableError,
  type OutboxOptions,
  type PayloadEncryption,
} from '../../../lib/index.js';
import { RecordingTransport } from '../../../lib/testing/index.js';
import { Applications, build, LineLogger, quiet, typeOrm, until } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith } from '../../support/services.js';
import { textsOf } from '../../support/reasons.js';

/** Keeps keys, as long as it is there. What it encrypts is only turned round. */
class KeyService implements PayloadEncryption {
  /** What becomes of a `decrypt` with a key, or of this message. */
  readonly troubles = new Map<string, () => Promise<never>>();
  calls = 0;

  encrypt(plaintext: Uint8Array, { type }: { readonly type: string }) {
    return type === 'clear' ? null : { keyId: type, ciphertext: Buffer.from(plaintext).reverse() };
  }
  async decrypt({ keyId, ciphertext }: { keyId: string; ciphertext: Uint8Array }): Promise<Uint8Array> {
    this.calls += 1;
    const plaintext = Buffer.from(ciphertext).reverse();
    await (this.troubles.get(keyId) ?? this.troubles.get(String(plaintext)))?.();
    return plaintext;
  }
}
const gone = async (): Promise<never> => {
  throw Object.assign(new Error('connect ECONNREFUSED kms'), { code: 'ECONNREFUSED' });
};
const silent = (): Promise<never> => new Promise<never>(() => undefined);
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** Of each database one relay does all that follows. */
const doesAll = (kind: string, relay: object): boolean =>
  kind === 'postgres' ? !('ordering' in relay) : 'coordination' in relay;
const LANES = [
  ['postgres', {}],
  ['mariadb', {}],
  ['postgres', { coordination: 'rowLock', ordering: 'none' }],
  ['mariadb', { coordination: 'rowLock', ordering: 'none' }],
  ['mariadb', { ordering: 'global' }],
  ['mysql', { coordination: 'rowLock', ordering: 'none' }],
] as const;

describe.each(LANES)('the key of encrypted payloads', (kind, relay) => {
  describeWith(kind, `on ${kind} ${JSON.stringify(relay)}`, () => {
    const applications = new Applications();
    const inOrder = !('ordering' in relay);
    const isGlobal = 'ordering' in relay && relay.ordering === 'global';
    let database: TestDatabase;
    let transport: RecordingTransport;
    let service: KeyService;
    let outbox: OutboxService;
    let logger: LineLogger;

    const start = async (more: Partial<OutboxOptions> = {}): Promise<void> => {
      const options = { transports: { default: transport }, encryption: service, publishTimeout: 20_000, logger };
      const all = quiet({ ...options, logLevel: 'warn', lease: '1m', ...relay, ...more });
      const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(all)]));
      outbox = app.get(OutboxService);
      relays = () => app.get(OutboxDispatcher).status().transports;
      query = (sql) => app.get(DataSource).query(sql);
    };
    let relays: () => ReturnType<OutboxDispatcher['status']>['transports'];
    let query: (sql: string) => Promise<{ attempts: unknown; state: string }[]>;
    const write = (type: string, payloads: readonly number[], keys = 10): Promise<unknown> =>
      outbox.enqueueOutsideTransaction(
        payloads.map((payload) => ({ type, key: `${type} ${payload % keys}`, payload })),
      );
    const seen = (type: string): number[] =>
      transport.published.filter((one) => one.type === type).map(({ payload }) => Number(payload));
    const expectOrder = (type: string, keys: number): void => {
      for (const key of numbers(0, keys)) {
        const own = seen(type).filter((payload) => payload % keys === key);
        expect(own).toEqual(own.toSorted((a, b) => a - b));
      }
    };

    beforeEach(async () => {
      database = await createTestDatabase(kind);
      [transport, service, logger] = [new RecordingTransport(), new KeyService(), new LineLogger()];
    });
    afterEach(async () => {
      await applications.close();
      await database.drop();
    });

    it('J1: is away: nobody is charged, others go on, health says which; when it is back all goes out in order', async () => {
      await start({ retry: { initial: 1, max: 1, maxAttempts: 2 } });
      service.troubles.set('k1', gone);
      // The first of each key asks in its turn, and each of them again so much later.
      await write('k1', numbers(0, 50), 3);
      await until(() => relays()[0]!.away.length === 1);
      if (!isGlobal) {
        await write('k2', numbers(0, 300));
        await write('clear', numbers(0, 300));
        await until(() => seen('k2').length + seen('clear').length === 600);
      }
      await write('k1', numbers(50, 60), 3);
      const health = await outbox.health();
      expect(health.status).not.toBe('up');
      expect(textsOf(health).join()).toMatch(
        /key "k1" takes nothing: .*Its messages wait, without an attempt: bring the key back.*ECONNREFUSED/,
      );
      expect(logger.lines.join()).toMatch(/with key .*k1.* now/);
      expect([(await outbox.stats()).total.dead, seen('k1')]).toEqual([0, []]);
      const calls = service.calls;
      await until(() => service.calls > calls);
      for (const { attempts } of await query('select attempts from outbox_messages')) expect(Number(attempts)).toBe(0);

      service.troubles.clear();
      await until(() => seen('k1').length === 60);
      expect(new Set(seen('k1')).size).toBe(60);
      if (inOrder) expectOrder('k1', 3);
      if (isGlobal) expect(seen('k1')).toEqual(numbers(0, 60));
      await until(async () => (await outbox.health()).status === 'up');
    });

    if (!doesAll(kind, relay)) return;

    it('J2: is there, but not for one message: that one is charged, and dies; a key that is gone for ever ends it at once', async () => {
      await start({ retry: { initial: 1, max: 1, maxAttempts: 2 } });
      service.troubles.set('7', gone);
      service.troubles.set('never', async () => {
        throw new OutboxUndecryptableError('It was destroyed.');
      });
      const dead = new Map<string, string>();
      outbox.events.on('dead', ({ type, attempts, error }) => dead.set(`${type} ${attempts}`, error));
      await write('never', [1]);
      await until(() => dead.has('never 1'));
      expect(dead.get('never 1')).toMatch(/DECRYPTION_FAILED.*It was destroyed/);
      await write('k1', [7]);
      for (let n = 100; !dead.has('k1 2'); n += 10) {
        await write('k1', numbers(n, n + 5));
        await until(() => seen('k1').length === n - 100 - ((n - 100) / 10) * 5 + 5);
      }
      expect(dead.get('k1 2')).toMatch(/others of its key can be decrypted/);
      expect(relays()[0]!.away).toEqual([]);
    });

    it('J3: hangs for one message: those beside it are published, the circuit stays closed', async () => {
      await start({ publishTimeout: 6_000, lease: '30s' }); // each try of that one takes so long
      service.troubles.set('-1', silent);
      let opened = 0;
      outbox.events.on('circuitOpened', () => (opened += 1));
      await write('k1', [-1, ...numbers(200, 400)], 50);
      await until(() => seen('k1').length === 200);
      for (let n = 400; n < 500; n += 20) {
        await write('k1', numbers(n, n + 20), 50);
        await until(() => seen('k1').length === n - 180);
      }
      if (inOrder) expectOrder('k1', 50);
      expect([opened, relays()[0]!.circuit]).toEqual([0, 'closed']);
      service.troubles.clear();
      await until(() => seen('k1').includes(-1));
    });
  });
});
