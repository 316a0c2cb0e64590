import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { INestApplicationContext } from '@nestjs/common';
import {
  OutboxDispatcher,
  OutboxService,
  type OutboxMessage,
  type OutboxOptions,
  PUBLISHED,
  type PublishResult,
} from '../lib/index.js';
import { OrderPlaced, startApplication } from './support/app.js';
import { argument, round, Samples, timed } from './support/measure.js';
import { startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { PAYLOAD_BYTES } from './support/rows.js';
import { bench } from './support/run.js';

/**
 * What each opt-in costs, on and off, on PostgreSQL: the enqueue of messages in transactions of 100, and their drain with a
 * transport that costs nothing. Each opt-in is compared with the same without it, in the same repeat.
 *   npm run bench -- opt-ins [messages=50000] [repeats=5]
 */
const messages = argument(0, 'messages', 50_000);
const repeats = argument(1, 'repeats', 5);
const TRANSACTION = 100;
const KEYS = 10_000;

/** Refuses each message once: what failed is parked with its error, and taken again. */
class FailingOnce extends NoopTransport {
  /** @internal */ readonly failed = new Set<string>();

  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    return batch.map(({ id }) => {
      if (this.failed.delete(id)) return PUBLISHED;
      this.failed.add(id);
      return { ok: false, blame: 'message', error: new Error('The warehouse does not know this order.') };
    });
  }
}

const secret = randomBytes(32);
const encryption: NonNullable<OutboxOptions['encryption']> = {
  encrypt(plaintext) {
    const iv = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', secret, iv);
    const ciphertext = Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
    return { ciphertext, keyId: 'bench' };
  },
  decrypt({ ciphertext }) {
    const bytes = Buffer.from(ciphertext);
    const decipher = createDecipheriv('aes-256-gcm', secret, bytes.subarray(0, 12));
    decipher.setAuthTag(bytes.subarray(-16));
    return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
  },
};

type Settings = Partial<OutboxOptions>;
interface OptIn {
  readonly on: Settings;
  /** With what it is compared. Default: an outbox as it comes. */
  readonly off?: 'failing';
}
const failing = (): Settings => ({
  transports: { default: new FailingOnce() },
  retry: { initial: 1, max: 1 },
  onDead: 'skip',
});
/** What opt-ins are compared with. */
const BASES: Readonly<Record<'plain' | 'failing', () => Settings>> = { plain: () => ({}), failing };
const OPT_INS: Readonly<Record<string, OptIn>> = {
  archive: { on: { onPublished: 'archive' } },
  encryption: { on: { encryption } },
  orderNone: { on: { ordering: 'none' } },
  orderStrict: { on: { ordering: 'strict' } },
  orderGlobal: { on: { ordering: 'global' } },
  errorHistory: { on: { retry: { initial: 1, max: 1, errorHistory: 10 } }, off: 'failing' },
};

interface Cost {
  readonly enqueuePerSecond: number;
  readonly drainPerSecond: number;
}

async function enqueueAll(application: INestApplicationContext): Promise<void> {
  const outbox = application.get(OutboxService);
  for (let from = 0; from < messages; from += TRANSACTION) {
    const count = Math.min(TRANSACTION, messages - from);
    await outbox.enqueueOutsideTransaction(
      Array.from({ length: count }, (_, n) => new OrderPlaced(`k${(from + n) % KEYS}`)),
    );
  }
}

async function drainAll(application: INestApplicationContext): Promise<void> {
  const { published } = await application.get(OutboxDispatcher).drain({ timeout: 600_000 });
  if (published !== messages) throw new Error(`The drain published ${published} of ${messages} messages.`);
}

bench('opt-ins', async (closing) => {
  const { url } = await startPostgres(closing, { max_connections: '300', max_wal_size: '4GB' });
  let tables = 0;
  /** Each has tables of its own: an order is a setting of theirs. */
  const open = (settings: Settings): Promise<INestApplicationContext> =>
    startApplication(
      closing,
      url,
      {
        transports: { default: new NoopTransport() },
        relay: 'manual',
        wakeUp: 'poll',
        ...settings,
        database: { setup: 'create', prefix: `opt_${++tables}_` },
      },
      2,
    );
  const measure = async (settings: Settings): Promise<Cost> => {
    const application = await open(settings);
    try {
      const enqueued = await timed(() => enqueueAll(application));
      const drained = await timed(() => drainAll(application));
      const perSecond = (ms: number): number => messages / (ms / 1_000);
      return { enqueuePerSecond: perSecond(enqueued.ms), drainPerSecond: perSecond(drained.ms) };
    } finally {
      await application.close();
    }
  };

  await measure({}); // code that runs for the first time
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const bases = { plain: await measure(BASES.plain()), failing: await measure(BASES.failing()) };
    for (const [base, cost] of Object.entries(bases))
      samples.add({
        [`${base}.enqueuePerSecond`]: cost.enqueuePerSecond,
        [`${base}.drainPerSecond`]: cost.drainPerSecond,
      });
    for (const [name, { on, off }] of Object.entries(OPT_INS)) {
      const cost = await measure(off === undefined ? on : { ...BASES[off](), ...on });
      const base = bases[off ?? 'plain'];
      samples.add({
        [`${name}.enqueueRatio`]: cost.enqueuePerSecond / base.enqueuePerSecond,
        [`${name}.drainRatio`]: cost.drainPerSecond / base.drainPerSecond,
      });
    }
  }
  const ranges = Object.fromEntries(
    Object.keys(OPT_INS).map((name) => [
      `${name}.drainRatioRange`,
      samples.range(`${name}.drainRatio`).map((one) => round(one, 3)),
    ]),
  );
  return { messages, payloadBytes: PAYLOAD_BYTES, transaction: TRANSACTION, repeats, ...samples.medians(), ...ranges };
});
