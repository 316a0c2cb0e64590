import { mqtt, type MqttOptions } from '../../../lib/transports/mqtt/index.js';
import type { ExpectedMessages } from '../../../lib/transports/transport.js';
import { MqttNode } from '../../support/mqtt-node.js';
import { describeUnlessMissing } from '../../support/services.js';

describeUnlessMissing(MqttNode.isInstalled ? [] : ['mqtt'], 'what mqtt() tells the doctor', () => {
  const expected: ExpectedMessages[] = [{ topic: 'last', options: { mqtt: { retain: true } } }];
  async function codes(options: MqttOptions): Promise<(readonly [code: string, severity: string])[]> {
    const transport = await mqtt(options).create();
    const signal = AbortSignal.timeout(30_000);
    const findings = await transport.diagnose!({ transport: 'default', expected, outage: null }, signal);
    return findings.map(({ code, severity }) => [code, severity]);
  }

  it('of a broker with room, and of one that is smaller than what is enqueued', async () => {
    const wide = await MqttNode.start(['max_inflight_messages 1000']);
    expect(await codes({ url: wide.url })).toEqual([
      ['broker', 'ok'],
      ['not-knowable', 'note'],
    ]);
    await wide.remove();
    const narrow = await MqttNode.start(['max_packet_size 100000', 'retain_available false']);
    expect(await codes({ url: narrow.url })).toEqual([
      ['broker', 'ok'],
      ['receive-maximum', 'note'],
      ['packet-size', 'warning'],
      ['retain', 'error'],
      ['not-knowable', 'note'],
    ]);
    await narrow.remove();
    await expect(codes({ url: narrow.url })).rejects.toMatchObject({ reason: 'unavailable' });
  });
});
