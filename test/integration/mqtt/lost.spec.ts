import type { OutboxTransport, PublishResult } from '../../../lib/index.js';
import { mqtt, type MqttOptions } from '../../../lib/transports/mqtt/index.js';
import { MqttNode } from '../../support/mqtt-node.js';
import { MqttObserver } from '../../support/mqtt.js';
import { contractMessage, expectAllOk, probePublish, publish } from '../../support/publish.js';
import { describeUnlessMissing } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

describeUnlessMissing(MqttNode.isInstalled ? [] : ['mqtt'], 'mqtt() and a Mosquitto in trouble', () => {
  let node: MqttNode;
  let observer: MqttObserver;
  let proxy: TcpProxy;
  const opened: OutboxTransport[] = [];
  beforeEach(async () => {
    node = await MqttNode.start(['max_queued_messages 0']);
    proxy = await TcpProxy.start(node.url);
    observer = await MqttObserver.connect(node.url);
  });
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close?.();
    await observer.close();
    await proxy.close();
    await node.remove();
  });
  async function connected(options: Partial<MqttOptions> = {}): Promise<[OutboxTransport, states: string[]]> {
    const transport = await mqtt({ url: `mqtt://127.0.0.1:${proxy.port}`, ...options }).create();
    opened.push(transport);
    const states: string[] = [];
    await transport.connect!(AbortSignal.timeout(30_000), (state) => void states.push(state));
    return [transport, states];
  }
  const batchOf = (topic: string, length: number, payload = '{}') =>
    Array.from({ length }, (_, n) => contractMessage({ topic, key: `k${n}`, payload }));
  const blames = (results: readonly PublishResult[]): Set<string> =>
    new Set(results.map((result) => (result.ok ? 'ok' : result.blame)));

  it('has no more unanswered than the Receive Maximum, however large the batch', async () => {
    let [sent, answered, most] = [0, 0, 0];
    // Whole packets: the broker's answers are of 4 to 6 bytes, and 20 at most are to come.
    proxy.intercept = () => ({
      up: (bytes) => {
        sent += bytes.toString('latin1').split('contract.tested').length - 1;
        most = Math.max(most, sent - answered);
        return bytes;
      },
      down: (bytes) => {
        answered += bytes[0] === 0x40 ? Math.floor(bytes.length / 4) : 0;
        return bytes;
      },
    });
    const topic = await observer.topic();
    const [transport] = await connected();
    expectAllOk(await publish(transport, batchOf(topic, 500)));
    expect(sent).toBe(500);
    expect(most).toBe(20);
    expect(await observer.total(topic)).toBe(500);
  });

  it('500 on their way when the broker is killed: nobody is charged, and the same transport goes on', async () => {
    const [transport, states] = await connected();
    const topic = await observer.topic();
    let killed: Promise<void> | undefined;
    const { results } = await probePublish(transport, batchOf(topic, 500), {
      timeout: 30_000,
      onReport: () => {
        killed ??= node.stop();
      },
    });
    await killed;
    expect(blames(results)).toEqual(new Set(['ok', 'transport']));
    expect(states).toEqual(['up', 'down']);
    const [refused] = await publish(transport, batchOf(topic, 1));
    expect(refused).toMatchObject({ ok: false, blame: 'transport', error: { code: 'TRANSPORT_UNAVAILABLE' } });
    await node.start();
    const again = await MqttObserver.connect(node.url);
    await again.client.subscribeAsync(topic, { qos: 1 });
    expectAllOk(await publish(transport, batchOf(topic, 3)));
    expect(await again.total(topic)).toBe(3);
    await again.close();
  });

  it('a broker that says goodbye: the state is told at once, with its reason', async () => {
    const transport = await mqtt({ url: node.url }).create();
    opened.push(transport);
    const down = new Promise<unknown>((resolve) => {
      void transport.connect!(AbortSignal.timeout(30_000), (state, reason) => state === 'down' && resolve(reason));
    });
    await publish(transport, batchOf(await observer.topic(), 1));
    await node.stop('SIGTERM');
    expect(await down).toMatchObject({ reason: 'disconnected' });
    expect(transport.health!()).toMatchObject({ up: false, state: 'closed' });
  });

  it('a broker that stands still for longer than the timeout: what it finds afterwards is no more than it had', async () => {
    const topic = await observer.topic();
    const [transport] = await connected({ keepAlive: '1s' });
    expectAllOk(await publish(transport, batchOf(topic, 1)));
    node.signal('SIGSTOP');
    const results = await publish(transport, batchOf(topic, 50, 'x'.repeat(1_000)), 500);
    expect(blames(results)).toEqual(new Set(['transport']));
    node.signal('SIGCONT');
    expectAllOk(await publish(transport, batchOf(topic, 1)));
    // Of one window: the broker had it in its kernel.
    expect(await observer.total(topic)).toBeLessThanOrEqual(22);
  });

  it('two publishes, of which one has no time left: the other one’s messages are not charged', async () => {
    const topic = await observer.topic();
    const [transport] = await connected();
    proxy.set({ down: 'hold' });
    const [short, long] = [publish(transport, batchOf(topic, 5), 200), publish(transport, batchOf(topic, 5), 30_000)];
    expect(blames(await short)).toEqual(new Set(['transport']));
    proxy.set({ down: 'forward' });
    expect([...blames(await long)].every((blame) => blame !== 'message')).toBe(true);
    expectAllOk(await publish(transport, batchOf(topic, 1)));
  });

  it('a second address is asked where the first one is away', async () => {
    const topic = await observer.topic();
    const transport = await mqtt({ url: ['mqtt://127.0.0.1:1', node.url] }).create();
    opened.push(transport);
    expect(blames(await publish(transport, batchOf(topic, 1)))).toEqual(new Set(['transport']));
    expectAllOk(await publish(transport, batchOf(topic, 1)));
  });
});
