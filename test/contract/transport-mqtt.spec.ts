import { describeTransportContract } from '../../lib/testing/index.js';
import { mqtt } from '../../lib/transports/mqtt/index.js';
import { MqttObserver } from '../support/mqtt.js';
import { faultsOf } from '../support/publish.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';

describeWith('mqtt', 'mqtt()', () => {
  let proxy: TcpProxy;
  let observer: MqttObserver;
  describeTransportContract('mqtt', {
    start: async () => {
      proxy = await TcpProxy.start(requiredUrl('mqtt'));
      observer = await MqttObserver.connect(requiredUrl('mqtt'));
    },
    stop: async () => {
      await observer.close();
      await proxy.close();
    },
    create: () => mqtt({ url: `mqtt://${proxy.host}:${proxy.port}` }).create(),
    createTopic: () => observer.topic(),
    timeout: 60_000,
    received: (topic, count) => observer.received(topic, count),
    poison: () => ({ topic: observer.unusedTopic() }),
    faults: faultsOf(() => proxy),
  });
});
