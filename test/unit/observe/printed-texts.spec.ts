import { inspect } from 'node:util';
import { healthOf, type HealthSources } from '../../../lib/observe/health.js';
import { OutboxConfigurationError, OutboxError } from '../../../lib/outbox.errors.js';
import { textsOf } from '../../support/reasons.js';

const transportRelay = { transport: 'kafka', receipt: 'broker', circuit: 'closed', lastError: null } as const;
const counts = {
  configured: true,
  ready: 0,
  readyIsExact: true,
  scheduled: 0,
  waiting: 0,
  blocked: 0,
  dead: 0,
  blockedKeys: 0,
  oldestReadyAge: null,
  leasedBuckets: 32,
  instances: 1,
};
const sources = (change: Partial<HealthSources>): HealthSources => ({
  mode: true,
  relay: { running: true, storeDownFor: null, transports: [transportRelay] },
  transports: new Map([['kafka', { kind: 'kafka', receipt: 'broker' }]]),
  stats: { transports: { kafka: counts }, total: counts },
  ...change,
});

describe('what is printed', () => {
  it('Y3: an error that is printed says its hint once, and no cause that there is not', () => {
    const plain = new OutboxError('INVALID_OPTIONS', 'It is wrong.', { hint: 'Do it so.' });
    expect(inspect(plain).replace(/^ +at .*\n?/gm, '')).toBe(
      "OutboxError: It is wrong. Do it so.\n  code: 'INVALID_OPTIONS'\n}",
    );
    expect([plain.hint, plain.name, plain.code]).toEqual(['Do it so.', 'OutboxError', 'INVALID_OPTIONS']);
    expect(inspect(new OutboxError('INVALID_OPTIONS', 'It is wrong.'))).not.toMatch(/undefined|hint|cause/);
    const caused = new OutboxConfigurationError('INVALID_OPTIONS', 'It is wrong.', { cause: new Error('why') });
    expect(inspect(caused)).toMatch(/^OutboxConfigurationError: It is wrong\.[^]*\[cause\]: Error: why/);
  });

  it('Y3: counts one as one', () => {
    const texts = (change: object, relay = sources({}).relay): readonly string[] =>
      textsOf(healthOf(sources({ relay, stats: { transports: { kafka: { ...counts, ...change } }, total: counts } })));
    expect([
      ...texts({ dead: 1, blockedKeys: 1, blocked: 1 }),
      ...texts({ ready: 1, instances: 0 }, { running: true, storeDownFor: null, transports: [] }),
      ...texts({ failingOften: 1, mostAttempts: 36 }),
      ...texts({ missingLeases: 1 }),
      ...texts({ dead: 2, blockedKeys: 2, blocked: 2 }),
    ]).toEqual([
      "1 dead message for 'kafka' waits for requeue or discard.",
      "1 key of 'kafka' is blocked by a failed message, with 1 message behind it: until it is published, requeued, discarded or released.",
      "1 message for 'kafka', which no live relay publishes.",
      "1 message for 'kafka' has failed 36 times: `last_error` says why.",
      expect.stringMatching(/^1 lease row of 'kafka' is missing, .* lies in its bucket\./),
      "2 dead messages for 'kafka' wait for requeue or discard.",
      "2 keys of 'kafka' are blocked by a failed message, with 2 messages behind it: until it is published, requeued, discarded or released.",
    ]);
  });
});
