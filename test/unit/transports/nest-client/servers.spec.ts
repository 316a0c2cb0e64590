import { ClientMqtt, ClientNats, ClientRMQ } from '@nestjs/microservices';
import { beginWithNext } from '../../../../lib/transports/nest-client/servers.js';
import type { NestClient } from '../../../../lib/transports/nest-client/kind.js';

const turned = (client: object): Record<string, unknown> => {
  beginWithNext(client as NestClient);
  return (client as { options: Record<string, unknown> }).options;
};

describe('a client with several servers, of which the first was silent', () => {
  it('M2: begins with the next one, and the options of the application stay as they are', () => {
    class Settings {
      urls = ['amqp://a', 'amqp://b', 'amqp://c'];
      get queue(): string {
        return 'orders';
      }
    }
    const options = new Settings();
    const { urls, queue } = turned(new ClientRMQ(options));
    expect([urls, queue]).toEqual([['amqp://b', 'amqp://c', 'amqp://a'], 'orders']);
    expect(options.urls).toEqual(['amqp://a', 'amqp://b', 'amqp://c']);
  });

  it('M2: keeps NATS from shuffling them', () => {
    const servers = ['a:4222', 'b:4222'];
    expect({ ...turned(new ClientNats({ servers })) }).toMatchObject({
      servers: ['b:4222', 'a:4222'],
      noRandomize: true,
    });
  });

  it('M2: has nothing to turn where there is one', () => {
    const options = { servers: ['a:1883'] };
    expect(turned(new ClientMqtt(options as never))).toBe(options);
  });
});
