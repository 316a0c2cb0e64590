import amqp from 'amqplib';
import type { OutboxTransport, PublishResult } from '../../../lib/index.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { AmqpRefusals } from '../../support/amqp-refusals.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

/** Who is charged: among others, alone. */
const MESSAGE = ['collateral', 'message'] as const;
const SUSPICION = ['collateral', 'transport'] as const;
/** Of the destination: alone it waits without an attempt. */
const DESTINATION = ['collateral', 'transport'] as const;
const NOBODY = ['transport', 'transport'] as const;
type Charged = readonly ['collateral' | 'transport', 'message' | 'transport'];
/** One reply code of AMQP of each kind; all of them: test/unit/transports/amqp/blame.spec.ts. When it closed the channel, the connection. */
const CODES: readonly (readonly [code: number, channel: Charged, connection: Charged])[] = [
  [313, MESSAGE, MESSAGE],
  [320, NOBODY, NOBODY],
  [404, DESTINATION, NOBODY],
  [405, SUSPICION, NOBODY],
  [406, MESSAGE, NOBODY],
  [541, SUSPICION, SUSPICION],
];
const ROWS = CODES.flatMap(([code, channel, connection]) =>
  [{ closes: 'channel', charged: channel } as const, { closes: 'connection', charged: connection } as const].map(
    ({ closes, charged: [together, alone] }) => ({ code, closes, together, alone }),
  ),
);

/** With whatever `amqplib` is in the file that calls it. */
export function describeRabbitMqCodes(client: string): void {
  describeWith(['rabbitmq', 'postgres'], `reply codes of AMQP, ${client}`, () => {
    let observer: RabbitMqObserver;
    let proxy: TcpProxy;
    let queue: string;
    /** Of the messages that the broker closes for. */
    let poison: string;
    let refusals: AmqpRefusals;
    const opened: OutboxTransport[] = [];
    beforeAll(async () => {
      observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
      [queue, poison] = [await observer.queue(), await observer.queue()];
      refusals = new AmqpRefusals(poison);
      proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
      proxy.intercept = () => refusals.connection();
    });
    afterEach(async () => {
      refusals.refusal = undefined;
      for (const transport of opened.splice(0)) await transport.close!();
    });
    afterAll(async () => {
      await proxy?.close();
      await observer?.close();
    });

    const open = async (options: Partial<RabbitMqOptions> = {}) => {
      const url = Object.assign(new URL(requiredUrl('rabbitmq')), { port: String(proxy.port) }).href;
      const transport = await rabbitmq({ url, ...options }).create();
      opened.push(transport);
      return transport;
    };
    const publish = async (transport: OutboxTransport, topics: string[]) => {
      const batch = topics.map((topic) => contractMessage({ topic }));
      return (await probePublish(transport, batch, { timeout: 60_000 })).results;
    };
    const said = (result: PublishResult | undefined) =>
      result?.ok === false ? `${result.blame} ${(result.error as Error).message}` : 'ok';

    it.each(ROWS)(
      'C3: $code closes the $closes: $together, alone $alone',
      async ({ code, closes, together, alone }) => {
        const transport = await open();
        await transport.connect!(AbortSignal.timeout(60_000));
        refusals.refusal = { code, closes };
        // What stands behind it was written and never confirmed, so it was not alone.
        const [before, culprit, behind] = await publish(transport, [queue, poison, queue]);
        const expected = expect.stringMatching(new RegExp(`^${together} .*\\(${code} [A-Z_]+\\)`));
        expect([said(culprit), said(behind)]).toEqual([expected, expected]);
        expect(said(before)).not.toMatch(/^message/);
        expect(said((await publish(transport, [poison]))[0])).toMatch(new RegExp(`^${alone} .*\\(${code} [A-Z_]+\\)`));
        refusals.refusal = undefined;
        // A destination that was refused is asked again after a moment.
        await until(async () => (await publish(transport, [queue, poison])).every(({ ok }) => ok));
        expect(transport.health!()).toEqual({ up: true, state: 'connected' });
      },
    );

    it.each(CODES.map(([code]) => code))(
      'C16: %d ends a connection that is being opened: the connect fails with the words of the broker',
      async (code) => {
        const transport = await open({
          topology: async (channel) => {
            channel.publish('', poison, Buffer.alloc(0));
            await channel.checkQueue(queue);
          },
        });
        refusals.refusal = { code, closes: 'connection' };
        const words = `refused with ${code}`;
        await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow(words);
        expect(said((await publish(transport, [queue]))[0])).toMatch(new RegExp(`^transport .*\\(${code} [A-Z_]+\\)`));
      },
    );

    it('C16: 503: a slip in the type of an exchange is told as the broker tells it', async () => {
      const assertExchange = [{ name: observer.unusedName(), type: 'topicc' }];
      const transport = await open({ topology: { assertExchange } });
      const attempt = transport.connect!(AbortSignal.timeout(60_000));
      await expect(attempt).rejects.toThrow("unknown exchange type 'topicc'");
    });

    it('C16: 405: a queue of the topology is somebody else’s alone: nobody is charged, and it opens when that one is gone', async () => {
      const other = await amqp.connect(requiredUrl('rabbitmq'));
      const name = observer.unusedName();
      await (await other.createChannel()).assertQueue(name, { exclusive: true });
      const transport = await open({ topology: { assertQueue: [{ name, options: { exclusive: true } }] } });
      await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toMatchObject({ code: 405 });
      expect(said((await publish(transport, [queue]))[0])).toMatch(/^transport .*\(405 RESOURCE_LOCKED\)/);
      await other.close();
      expect((await publish(transport, [queue])).map(said)).toEqual(['ok']);
    });
  });
}
