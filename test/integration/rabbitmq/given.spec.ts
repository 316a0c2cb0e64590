import type { Socket } from 'node:net';
import amqp, { type ChannelModel } from 'amqplib';
import type { OutboxTransport } from '../../../lib/index.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

describeWith('rabbitmq', 'a connection of the application', () => {
  const given: ChannelModel[] = [];
  afterEach(() => Promise.allSettled(given.splice(0).map((connection) => connection.close())));
  async function connected(): Promise<ChannelModel> {
    const connection = await amqp.connect(requiredUrl('rabbitmq'));
    connection.on('error', () => {});
    given.push(connection);
    return connection;
  }

  it('is written to as before, however often the transport connected', async () => {
    const connection = await connected();
    const { stream } = connection.connection as unknown as { stream: Socket };
    const { write } = stream;
    const transport = await rabbitmq({ connection }).create();
    for (let n = 0; n < 50; n++) {
      await transport.connect!(AbortSignal.timeout(60_000));
      await transport.reset!();
    }
    await transport.connect!(AbortSignal.timeout(60_000));
    expect(stream.write).not.toBe(write);
    await transport.close!();
    await until(() => openChannels(connection) === 0);
    expect(stream.write).toBe(write);
  });

  describe('is left without a channel of ours by a connect', () => {
    it('whose topology fails', async () => {
      const connection = await connected();
      const topology = () => Promise.reject(new Error('not ready'));
      const transport = await rabbitmq({ connection, topology }).create();
      for (let n = 0; n < 5; n++)
        await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow('not ready');
      await until(() => openChannels(connection) === 0);
    });

    it('that is given up while its topology waits for something', async () => {
      const connection = await connected();
      const giveUp = new AbortController();
      const topology = () => {
        giveUp.abort(new Error('given up'));
        return new Promise<void>(() => {});
      };
      const transport = await rabbitmq({ connection, topology }).create();
      await expect(transport.connect!(giveUp.signal)).rejects.toThrow('given up');
      await until(() => openChannels(connection) === 0);
    });

    it('that is given up before its confirm channel is open', async () => {
      const connection = await connected();
      const giveUp = new AbortController();
      const create = connection.createConfirmChannel.bind(connection);
      let late: Promise<unknown> | undefined;
      connection.createConfirmChannel = () => {
        giveUp.abort(new Error('given up'));
        const opening = create();
        late = opening;
        return opening;
      };
      const transport = await rabbitmq({ connection }).create();
      await expect(transport.connect!(giveUp.signal)).rejects.toThrow('given up');
      await late;
      await until(() => openChannels(connection) === 0);
    });
  });
});

describeWith('rabbitmq', 'connections that a factory makes at each call', () => {
  let proxy: TcpProxy;
  const made: ChannelModel[] = [];
  beforeEach(async () => {
    proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
  });
  afterEach(async () => {
    await proxy.close();
    made.length = 0;
  });

  /** Nobody else listens to its connections. */
  const useFactory = async (): Promise<ChannelModel> => {
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${proxy.host}:${proxy.port}`;
    const connection = await amqp.connect(url.href);
    made.push(connection);
    return connection;
  };
  const transportOf = (options: Partial<RabbitMqOptions> = {}) =>
    rabbitmq({ connection: { useFactory }, ...options }).create();
  const soon = () => AbortSignal.timeout(60_000);
  /** While its factory was at work, which gave a connection after that. */
  async function givenUp(options: { own?: boolean } = {}): Promise<OutboxTransport> {
    const giveUp = new AbortController();
    let late: Promise<unknown> | undefined;
    const slow = () => {
      if (late === undefined) giveUp.abort(new Error('given up'));
      const connection = useFactory();
      late = connection;
      return connection;
    };
    const transport = await transportOf({ connection: { useFactory: slow, ...options } });
    await expect(transport.connect!(giveUp.signal)).rejects.toThrow('given up');
    await late;
    return transport;
  }

  it('do not pile up: the one that is there is used again, and left open at the end', async () => {
    const transport = await transportOf();
    for (let n = 0; n < 3; n++) {
      await transport.connect!(soon());
      await transport.reset!();
    }
    await transport.connect!(soon());
    await transport.close!();
    await until(() => openChannels(made[0]!) === 0);
    expect([made.length, proxy.open]).toEqual([1, 1]);
  });

  it('do not pile up when connects fail, either', async () => {
    const transport = await transportOf({ topology: () => Promise.reject(new Error('not ready')) });
    for (let n = 0; n < 3; n++) await expect(transport.connect!(soon())).rejects.toThrow('not ready');
    expect([made.length, proxy.open]).toEqual([1, 1]);
  });

  it('are asked for again when the last one ended, or does not answer any more', async () => {
    const mute = new Set<number>();
    /** As if the time for an answer were over, when there was one. */
    const waited = new AbortController();
    proxy.intercept = () => {
      const nth = made.length;
      const unheard = (): Buffer => (waited.abort(), Buffer.alloc(0));
      return { up: (bytes) => bytes, down: (bytes) => (mute.has(nth) ? unheard() : bytes) };
    };
    const transport = await transportOf({ connectTimeout: 60_000 });
    await transport.connect!(soon());
    await transport.reset!();
    await made[0]!.close();
    await transport.connect!(soon());
    await transport.reset!();
    mute.add(1);
    const signal = soon();
    const timeout = jest.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(waited.signal);
    await transport.connect!(signal);
    expect(timeout.mock.calls[0]).toEqual([60_000]);
    timeout.mockRestore();
    expect([made.length, transport.health!().state]).toEqual([3, 'connected']);
    await transport.close!();
  });

  it('are used later when they come late', async () => {
    const transport = await givenUp();
    await transport.connect!(soon());
    expect([made.length, proxy.open]).toEqual([1, 1]);
    await transport.close!();
  });

  it('end no process by an error while the transport lets them rest', async () => {
    const transport = await transportOf();
    await transport.connect!(soon());
    await transport.reset!();
    await until(() => made[0]!.listenerCount('blocked') === 0);
    expect(() => made[0]!.emit('error', new Error('nobody listens'))).not.toThrow();
  });

  it('are closed with own: true, when they are given up and at the end', async () => {
    const transport = await transportOf({ connection: { useFactory, own: true } });
    for (let n = 0; n < 3; n++) {
      await transport.connect!(soon());
      await transport.reset!();
      await until(() => proxy.open === 0);
    }
    await transport.connect!(soon());
    await transport.close!();
    await until(() => proxy.open === 0);
    expect(made.length).toBe(4);
  });

  it('are closed with own: true, when their topology fails or they come late', async () => {
    const topology = () => Promise.reject(new Error('not ready'));
    const transport = await transportOf({ connection: { useFactory, own: true }, topology });
    await expect(transport.connect!(soon())).rejects.toThrow('not ready');
    await givenUp({ own: true });
    await until(() => proxy.open === 0);
    expect(made.length).toBe(2);
  });
});

/** As amqplib counts them. */
function openChannels({ connection }: ChannelModel): number {
  return (connection as unknown as { channels: unknown[] }).channels.filter((channel, n) => n > 0 && channel).length;
}
