import amqp, { type ChannelModel } from 'amqplib';
import { rabbitmq } from '../../lib/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { until } from '../support/until.js';

describeWith('rabbitmq', 'a connection of the application', () => {
  const given: ChannelModel[] = [];
  afterEach(() => Promise.allSettled(given.splice(0).map((connection) => connection.close())));
  async function connected(): Promise<ChannelModel> {
    const connection = await amqp.connect(requiredUrl('rabbitmq'));
    connection.on('error', () => {});
    given.push(connection);
    return connection;
  }

  describe('is left without a channel of ours by a connect', () => {
    it('whose topology fails', async () => {
      const connection = await connected();
      const topology = () => Promise.reject(new Error('not ready'));
      const transport = await rabbitmq({ connection, topology }).create();
      for (let n = 0; n < 5; n++)
        await expect(transport.connect!(AbortSignal.timeout(5_000))).rejects.toThrow('not ready');
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

/** As amqplib counts them. */
function openChannels({ connection }: ChannelModel): number {
  return (connection as unknown as { channels: unknown[] }).channels.filter((channel, n) => n > 0 && channel).length;
}
