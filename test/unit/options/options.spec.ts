import { didYouMean, editDistance } from '../../../lib/options/did-you-mean.js';
import { OPTIONS_TABLE } from '../../../lib/options/table.js';
import {
  OutboxModule,
  OutboxConfigurationError,
  type OutboxExtras,
  type OutboxOptions,
  OutboxTransport,
  PUBLISHED,
  type PublishResult,
} from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import type { ResolvedOptions } from '../../../lib/outbox.options.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { resolveOptions } from '../../../lib/options/resolve.js';

class Null extends OutboxTransport {
  override readonly receipt: 'broker' | 'none' = 'broker';
  async publish(batch: readonly unknown[]): Promise<PublishResult[]> {
    return batch.map(() => PUBLISHED);
  }
}
const transports = { default: new Null() };

const resolve = (options: object, extras: OutboxExtras = {}): ResolvedOptions =>
  resolveOptions({ transports, ...options } as OutboxOptions, extras);

function problems(options: object, extras: OutboxExtras = {}): string[] {
  try {
    resolve(options, extras);
  } catch (error) {
    expect(error).toBeInstanceOf(OutboxConfigurationError);
    expect(error).toHaveProperty('code', 'INVALID_OPTIONS');
    return (error as Error).message
      .split('\n')
      .slice(1)
      .map((line) => line.replace(/^ {2}- /, ''));
  }
  return [];
}

describe('options', () => {
  it('has a default for everything', () => {
    const options = resolve({});
    expect(options).toMatchObject({
      name: 'default',
      defaultTransport: 'default',
      relay: true,
      wakeUp: undefined,
      ordering: 'key',
      coordination: 'buckets',
      buckets: 32,
      database: { setup: 'check', schema: undefined, prefix: 'outbox_', pooler: undefined },
      retry: {
        initial: 1_000,
        max: 300_000,
        backoff: 'exponential',
        jitter: 'full',
        maxAttempts: 20,
        maxAge: null,
        errorHistory: 0,
        classify: undefined,
        onDead: 'block',
      },
      retention: { published: 604_800_000, dead: null, dedup: 604_800_000, audit: 7_776_000_000, every: 3_600_000 },
      onPublished: 'delete',
      lease: 30_000,
      batchSize: 500,
      batchBytes: 4_194_304,
      batchesInFlight: 4,
      pollInterval: 1_000,
      publishTimeout: 10_000,
      shutdownTimeout: 10_000,
      maxPayloadBytes: 1_048_576,
      logLevel: 'log',
    });
    expect(options.serializer.contentType).toBe('application/json');
    expect(options.idGenerator()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    expect([options, options.retry, options.database, options.retention].every(Object.isFrozen)).toBe(true);
  });

  it('takes undefined as the default, everywhere', () => {
    const nested = Object.fromEntries(OPTIONS_TABLE.map((row) => [row.name.split('.')[0], undefined]));
    const inner = { retry: { max: undefined }, database: { prefix: undefined }, retention: { every: undefined } };
    expect(JSON.stringify(resolve({ ...nested, ...inner }))).toBe(JSON.stringify(resolve({})));
  });

  it('accepts every default that it documents, and refuses every documented nonsense', () => {
    for (const row of OPTIONS_TABLE) {
      if (row.default !== undefined) expect(problems(at(row.name, row.default))).toEqual([]);
      for (const bad of [NaN, -1, 0, '', Symbol('x'), []]) {
        if (bad === row.default) continue;
        expect([row.name, bad, problems(at(row.name, bad)).some((text) => text.startsWith(`${row.name}: `))]).toEqual([
          row.name,
          bad,
          true,
        ]);
      }
    }
  });

  it('reports all problems together, with path, value, what is allowed and what was meant', () => {
    expect(
      problems({
        polInterval: 5,
        pollInterval: 0,
        ordering: 'keys',
        retry: { maxAttemps: 3, initial: '1w' },
        maxAttempts: 3,
        lease: NaN,
      }),
    ).toEqual([
      "polInterval: unknown option; did you mean 'pollInterval'?",
      "retry.maxAttemps: unknown option; did you mean 'retry.maxAttempts'?",
      "maxAttempts: unknown option; did you mean 'retry.maxAttempts'?",
      "ordering: is 'keys'; must be 'key' | 'strict' | 'none' | 'global'; did you mean 'key'?",
      "retry.initial: is '1w'; must be a duration from 1ms to 1h: whole milliseconds, or text with ms, s, m, h or d",
      'lease: is NaN; must be a duration from 10s to 1h: whole milliseconds, or text with ms, s, m, h or d',
      'pollInterval: is 0; must be a duration from 10ms to 1m: whole milliseconds, or text with ms, s, m, h or d',
    ]);
  });

  it('says once what is wrong with a whole group', () => {
    expect(problems({ retry: 5 })).toEqual(['retry: is 5; must be an object']);
    expect(problems({ database: null })).toEqual(['database: is null; must be an object']);
  });

  it('checks what depends on another option', () => {
    expect(problems({ publishTimeout: '23s' })).toEqual([
      'publishTimeout: is 23s; must be at most lease − 8s (5s to settle, 2s margin, 1s to begin after a renewal), which is 22s with a lease of 30s',
    ]);
    expect(problems({ publishTimeout: '22s' })).toEqual([]);
    expect(problems({ coordination: 'rowLock' })).toEqual([
      "coordination: 'rowLock' keeps no order; it must go with ordering: 'none'",
    ]);
    expect(problems({ coordination: 'rowLock', ordering: 'strict' })).toEqual(problems({ coordination: 'rowLock' }));
    expect(problems({ coordination: 'rowLock', ordering: 'none' })).toEqual([]);
    for (const coordination of ['buckets', 'leader'] as const)
      expect(problems({ coordination, ordering: 'strict' })).toEqual([]);
    expect(problems({ retry: { initial: '1m', max: '1s' } })).toEqual([
      'retry.initial: must not be longer than retry.max',
    ]);
  });

  it('knows the default transport', () => {
    expect(resolve({ transports: { only: new Null() } }).defaultTransport).toBe('only');
    expect(resolve({ transports: { a: new Null(), default: new Null() } }).defaultTransport).toBe('default');
    expect(problems({ transports: { a: new Null(), b: new Null() } })).toEqual([
      "defaultTransport: must be one of 'a', 'b', as none of them is named 'default'",
    ]);
    expect(problems({ defaultTransport: 'defualt' })).toEqual([
      "defaultTransport: is 'defualt'; must be one of 'default'; did you mean 'default'?",
    ]);
  });

  it('accepts numbers, texts, cron and null where they make sense', () => {
    const options = resolve({
      retention: { every: { cron: '0 3 * * *' }, dead: '30d' },
      retry: { maxAttempts: null, maxAge: '1d' },
      lease: 60_000,
    });
    expect(options.retention).toEqual({
      published: 604_800_000,
      dead: 2_592_000_000,
      dedup: 604_800_000,
      audit: 7_776_000_000,
      every: { cron: '0 3 * * *' },
    });
    expect(options.retry).toMatchObject({ maxAttempts: null, maxAge: 86_400_000 });
    expect(problems({ retention: { every: { cron: 'x' } } })).toHaveLength(1);
    expect(problems({ retention: { every: null } })).toHaveLength(1);
    expect(problems({ retention: { every: { cron: '0 3 * * *', CronJob: null } } } as never)).toHaveLength(1);
  });

  it.each(['a"b', '1a', 'a b', "x'; drop table y; --", 'Ä', 'a.b', 'A', 'x'.repeat(64)])(
    'refuses %p as a prefix or schema',
    (name) => {
      expect(problems({ database: { prefix: name, schema: name } })).toHaveLength(2);
    },
  );

  it('refuses a senseless name of the outbox', () => {
    expect(problems({}, { name: 'a b' })).toEqual(["name: is 'a b'; must be 1 to 64 letters, digits, _, . or -"]);
  });

  it.each([undefined, null, 5, [], Promise.resolve({})])('refuses %p instead of options', (given) => {
    expect(() => resolveOptions(given as never)).toThrow(/options|transports/);
  });

  it.each([undefined, null, 5])('says what forRoot(%p) lacks', (given) => {
    let error: unknown;
    try {
      OutboxModule.forRoot(given as never);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(OutboxConfigurationError);
    expect(error).toMatchObject({ code: 'INVALID_OPTIONS', message: expect.stringContaining("'transports'") });
    expect(() => OutboxModule.forRootAsync(given as never)).toThrow(/forRootAsync needs one of 'useFactory'/);
  });

  it('never prints the inside of an object or the password of a URL', () => {
    const [text] = problems({
      wakeUp: { password: 'hunter2' },
      transports: { default: { url: 'amqp://u:hunter2@h' } },
    });
    expect(text).toContain('an object (Object)');
    expect(problems({ ordering: 'amqp://u:hunter2@h' })[0]).toContain("'amqp://***@h'");
  });

  it('takes a whole address past a pooler, and nothing less', () => {
    const url = 'postgres://app:hunter2@[::1]:5433/shop';
    expect(resolve({ database: { pooler: url } }).database.pooler).toBe(url);
    for (const bad of [
      'host',
      'postgres://host/shop',
      'postgres://app:hunter2@host',
      'mysql://app:hunter2@host/shop',
    ]) {
      expect(problems({ database: { pooler: bad } })).toEqual([
        'database.pooler: is a text; must be true, false, or a URL with user, host and database: postgres://user:password@host:5432/database',
      ]);
    }
  });

  it.each(['x'.repeat(256), '', undefined, 'half \ud83d of a pair'])(
    'F5: takes no serializer whose content type would be cut: %j',
    (contentType) => {
      const serializer = { contentType, serialize: () => Buffer.from('x'), deserialize: () => 'x' };
      expect(problems({ serializer })).toEqual([
        expect.stringMatching(/serializer.*contentType of 1 to 255 characters/),
      ]);
    },
  );

  it('never prints a text that stands where an object or a function belongs: it may be a key', () => {
    const key = 'q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=';
    const names = ['encryption', 'serializer', 'logger', 'store', 'idGenerator', 'retry.classify', 'retry', 'database'];
    for (const name of [...names, 'database.pooler']) {
      expect(problems(at(name, key))).toEqual([expect.stringMatching(RegExp(`^${name}: is a text; must be `))]);
    }
    expect(problems({ transports: key })[0]).toMatch(/^transports: is a text; must be /);
    for (const make of [() => resolveOptions(key as never), () => kafka(key as never), () => rabbitmq(key as never)]) {
      expect(make).toThrow(/: (is|options are) a text; must be /);
    }
  });
});

describe('did you mean', () => {
  it('counts edits and swaps', () => {
    expect(editDistance('kitten', 'sitting')).toBe(3);
    expect(editDistance('defualt', 'default')).toBe(1);
    expect(editDistance('', 'abc')).toBe(3);
  });
  it('stays silent when nothing is near', () => {
    expect(didYouMean('zzzzz', ['lease', 'buckets'])).toBeUndefined();
    expect(didYouMean('x'.repeat(1e6), ['lease'])).toBeUndefined();
  });
});

function at(path: string, value: unknown): object {
  const [outer, inner] = path.split('.') as [string, string?];
  return { [outer]: inner === undefined ? value : { [inner]: value } };
}
