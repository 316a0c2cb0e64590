import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { describeTls, send } from '../../support/tls-contract.js';
import { TlsFront } from '../../support/tls-front.js';

/** With whatever `amqplib` is in the file that calls it. */
export function describeRabbitMqTls(client: string): void {
  describeWith('rabbitmq', `rabbitmq() over TLS, ${client}`, () => {
    let observer: RabbitMqObserver;
    const open = ({ host: hostname, port }: { readonly host: string; readonly port: number }, socket: object) => {
      const url = new URL(requiredUrl('rabbitmq').replace(/^amqp:/, 'amqps:'));
      return rabbitmq({ url: Object.assign(url, { hostname, port: String(port) }).href, socket }).create();
    };

    describeTls(
      {
        async start() {
          observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
          return requiredUrl('rabbitmq');
        },
        stop: () => observer?.close(),
        open: (at, ca) => open(at, ca === undefined ? {} : { ca: [ca] }),
        topic: () => observer.queue(),
        total: (topic) => observer.depth(topic),
        refusal: (code) => ({ code: expect.stringMatching(new RegExp(`^${code}`)) }),
        flood: { count: 5_000, size: 2_000, most: 1_000_000 },
      },
      (tls) => {
        it('a broker that has no TLS: says so', async () => {
          const [host, port] = new URL(requiredUrl('rabbitmq')).host.split(':');
          await tls.expectRefused(await tls.open({ host: host!, port: Number(port) }), 'ERR_SSL_');
        });

        // With TLS 1.3 a client learns of it when it takes itself for connected, and perhaps only that the connection is gone.
        it('C18: a broker that asks for a certificate: refused without one, and publishes with it', async () => {
          const { ca, good } = tls.certificates;
          const asking = { ca, requestCert: true, maxVersion: 'TLSv1.2' } as const;
          const strict = await TlsFront.start(requiredUrl('rabbitmq'), { ...good, ...asking });
          const at = { host: 'localhost', port: strict.port };
          await tls.expectRefused(await tls.open(at), 'ERR_SSL_.*ALERT_HANDSHAKE_FAILURE');
          const known = await open(at, { ca: [ca], cert: good.cert, key: good.key });
          expect(await send(known, await observer.queue())).toEqual([{ ok: true }]);
          await known.close!();
          await strict.close();
        });
      },
    );
  });
}
