import type { OutboxMessage } from '../../lib/message.js';
import type { OutboxTransport, PublishResult } from '../../lib/publish/transport.js';
import { rabbitmq } from '../../lib/rabbitmq.js';
import { contractMessage } from '../../lib/testing/contract-message.js';
import { probePublish } from '../../lib/testing/publish-probe.js';
import { RabbitMqNode } from '../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeUnlessMissing } from '../support/services.js';

describeUnlessMissing(RabbitMqNode.isInstalled ? [] : ['rabbitmq'], 'rabbitmq() and a broker in trouble', () => {
  let node: RabbitMqNode;
  let transport: OutboxTransport;
  const states: { state: string; reason?: unknown }[] = [];
  const listeners = new Set<() => void>();
  beforeAll(async () => {
    node = await RabbitMqNode.start();
    transport = await rabbitmq({ url: node.url }).create();
    transport.onState = (state, reason) => {
      states.push({ state, reason });
      for (const listener of listeners) listener();
    };
    await transport.connect?.(AbortSignal.timeout(20_000));
  }, 90_000);
  afterAll(async () => {
    await transport.close?.();
    await node.remove();
  }, 30_000);

  const publish = async (batch: readonly OutboxMessage[], timeout = 20_000) =>
    (await probePublish(transport, batch, { timeout })).results;
  const blames = (results: readonly PublishResult[]) =>
    new Set(results.map((result) => (result.ok ? 'ok' : result.blame)));
  /** The next time that the transport says so. */
  const saying = (state: string) => {
    const from = states.length;
    return new Promise<void>((resolve) => {
      const look = (): void => {
        if (!states.slice(from).some((one) => one.state === state)) return;
        listeners.delete(look);
        resolve();
      };
      listeners.add(look);
    });
  };
  async function durableQueue(): Promise<string> {
    const observer = await RabbitMqObserver.connect(node.url);
    const queue = await observer.queue();
    await observer.connection.close();
    return queue;
  }
  const batchOf = (topic: string, count: number) =>
    Array.from({ length: count }, (_, n) => contractMessage({ topic, key: `k${n}` }));

  it('waits while the broker is out of memory, charges nobody, and goes on', async () => {
    const topic = await durableQueue();
    const [blocked, up] = [saying('blocked'), saying('up')];
    await node.ctl('set_vm_memory_high_watermark', '0');
    const first = publish(batchOf(topic, 20));
    await blocked;
    expect(transport.health?.()).toMatchObject({ up: true, state: 'blocked' });
    // Nothing of this one is written, so that its deadline needs no new connection.
    const second = await publish(batchOf(topic, 20), 300);
    expect(blames(second)).toEqual(new Set(['transport']));
    expect(second[0]).toMatchObject({ error: { reason: 'blocked' } });
    expect(transport.health?.().state).toBe('blocked');
    await node.ctl('set_vm_memory_high_watermark', '0.6');
    await up;
    expect(blames(await first)).toEqual(new Set(['ok']));
    const observer = await RabbitMqObserver.connect(node.url);
    expect(await observer.depth(topic)).toBe(20);
    await observer.connection.close();
  }, 60_000);

  it('comes back after an operator closed its connection', async () => {
    const topic = await durableQueue();
    const down = saying('down');
    await node.ctl('close_all_connections', 'maintenance');
    await down;
    expect(blames(await publish(batchOf(topic, 5)))).toEqual(new Set(['ok']));
  }, 60_000);

  it('said ok only for what is still there after a SIGKILL', async () => {
    const topic = await durableQueue();
    const acknowledged: string[] = [];
    let killed: Promise<void> | undefined;
    while (killed === undefined || acknowledged.length === 0) {
      const batch = batchOf(topic, 500);
      const results = await probePublish(transport, batch, {
        timeout: 10_000,
        onReport: (index, result) => {
          if (result.ok) acknowledged.push(batch[index]!.id);
          if (acknowledged.length > 700) killed ??= node.kill();
        },
      });
      expect(blames(results.results)).not.toContain('message');
    }
    await killed;
    expect(blames(await publish(batchOf(topic, 2), 2_000))).toEqual(new Set(['transport']));
    await node.start();
    await transport.reset?.();
    await transport.connect?.(AbortSignal.timeout(10_000));
    const last = contractMessage({ topic });
    expect(blames(await publish([last]))).toEqual(new Set(['ok']));
    const observer = await RabbitMqObserver.connect(node.url);
    const stored = new Set((await observer.receivedUpTo(topic, last.id)).map(({ id }) => id));
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    await observer.connection.close();
  }, 90_000);
});
