import { type TransportHarness, describeTransportContract } from 'nestjs-outbox/testing';
import type { OutboxMessage, PublishContext, PublishResult } from '../../../lib/index.js';
import { OutboxTransport, PUBLISHED } from '../../../lib/transports/transport.js';
import type { ReceivedMessage } from '../../../lib/testing/transport-contract/harness.js';

/** The smallest broker: topics are arrays. */
class Memory {
  readonly topics = new Map<string, ReceivedMessage[]>();
  lost: 'requests' | 'replies' | undefined;
  store({ topic, id, payload, key, headers }: OutboxMessage): void {
    this.topics.set(topic, [...(this.topics.get(topic) ?? []), { id, payload, key, headers }]);
  }
}

class MemoryTransport extends OutboxTransport {
  readonly receipt = 'broker';
  open = false;
  constructor(readonly memory: Memory) {
    super();
  }
  override async connect(signal: AbortSignal): Promise<void> {
    if (this.memory.lost)
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    this.open = true;
  }
  override async close(): Promise<void> {
    this.open = false;
  }
  override health() {
    return { up: this.open, state: this.open ? 'connected' : 'closed' } as const;
  }
  async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<PublishResult[]> {
    if (!this.open || context.signal.aborted) throw new Error('closed');
    return Promise.all(batch.map((message) => this.one(message, context)));
  }
  async one(message: OutboxMessage, { signal }: PublishContext): Promise<PublishResult> {
    if (message.topic.endsWith('/refused')) return { ok: false, blame: 'message', error: new Error('refused') };
    if (this.memory.lost !== 'requests') this.memory.store(message);
    if (this.memory.lost === undefined) return PUBLISHED;
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('timeout'))));
  }
}

function harnessOf(transport: (memory: Memory) => OutboxTransport): TransportHarness {
  const memory = new Memory();
  return {
    create: () => transport(memory),
    received: async (topic) => memory.topics.get(topic) ?? [],
    poison: (topic) => ({ topic: `${topic}/refused` }),
    faultTimeout: 150,
    timeout: 60_000,
    faults: {
      loseRequests: () => void (memory.lost = 'requests'),
      loseReplies: () => void (memory.lost = 'replies'),
      heal: () => void (memory.lost = undefined),
    },
  };
}

describeTransportContract(
  'a transport that keeps it',
  harnessOf((memory) => new MemoryTransport(memory)),
);

class Liar extends MemoryTransport {
  override one() {
    return Promise.resolve(PUBLISHED);
  }
}
class Thrower extends MemoryTransport {
  override publish(): never {
    throw new Error('at once');
  }
}
class Forgetful extends MemoryTransport {
  override async publish(batch: readonly OutboxMessage[], context: PublishContext) {
    return super.publish(batch.slice(1), context);
  }
}
class Blamer extends MemoryTransport {
  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<PublishResult[]> {
    return super.publish(batch, context).catch((error) => batch.map(() => ({ ok: false, blame: 'message', error })));
  }
}
class Hanging extends MemoryTransport {
  override publish(): Promise<PublishResult[]> {
    return new Promise(() => {});
  }
}
/** Sends after the caller was told that it failed. */
class Zombie extends MemoryTransport {
  readonly kept: OutboxMessage[] = [];
  override async connect(signal: AbortSignal) {
    await super.connect(signal);
    for (const message of this.kept.splice(0)) this.memory.store(message);
  }
  override async publish(batch: readonly OutboxMessage[], context: PublishContext) {
    if (this.memory.lost) this.kept.push(...batch);
    return super.publish(batch, context);
  }
}

describe('the transport contract suite finds', () => {
  it.each([
    ['ok without a broker', Liar, 'gives every message'],
    ['a synchronous throw', Thrower, 'gives every message'],
    ['a missing result', Forgetful, 'gives every message'],
    ['a blamed outage', Blamer, 'closes twice'],
    ['a publish that never settles', Hanging, 'settles soon after it was aborted'],
    ['a late send', Zombie, 'is dead once it is rejected'],
  ] as const)('%s', async (_, Broken, test) => {
    const tests = new Map<string, () => Promise<void>>();
    describeTransportContract(
      'broken',
      { ...harnessOf((memory) => new Broken(memory)), timeout: 200 },
      {
        describe: (_name, body) => body(),
        it: (name, body) => tests.set(name, body),
        beforeAll: () => undefined,
        afterAll: () => undefined,
      },
    );
    const [, body] = [...tests].find(([name]) => name.startsWith(test))!;
    await expect(body()).rejects.toThrow();
  });
});
