import { mqtt } from '../../../lib/transports/mqtt/index.js';
import { MqttObserver } from '../../support/mqtt.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { describeTls, send } from '../../support/tls-contract.js';
import { TlsFront } from '../../support/tls-front.js';

describeWith('mqtt', 'mqtt() over TLS', () => {
  let observer: MqttObserver;
  const open = ({ host, port }: { readonly host: string; readonly port: number }, tls: object) =>
    mqtt({ url: `mqtts://${host}:${port}`, tls }).create();

  describeTls(
    {
      async start() {
        observer = await MqttObserver.connect(requiredUrl('mqtt'));
        return requiredUrl('mqtt');
      },
      stop: () => observer?.close(),
      open: (at, ca) => open(at, ca === undefined ? {} : { ca: [ca] }),
      topic: () => observer.topic(),
      total: (topic) => observer.total(topic),
      refusal: (code) => ({ code: 'TRANSPORT_UNAVAILABLE', message: expect.stringMatching(new RegExp(`\\(${code}`)) }),
      flood: { count: 5_000, size: 2_000, most: 1_000_000 },
    },
    (tls) => {
      it('C18: a broker that asks for a certificate: refused without one, and publishes with it', async () => {
        const { ca, good } = tls.certificates;
        const asking = { ca, requestCert: true, maxVersion: 'TLSv1.2' } as const;
        const strict = await TlsFront.start(requiredUrl('mqtt'), { ...good, ...asking });
        const at = { host: 'localhost', port: strict.port };
        // Node says so to who writes, or to who reads.
        await tls.expectRefused(await tls.open(at), 'E(PROTO|RR_SSL_)');
        const known = await open(at, { ca: [ca], cert: good.cert, key: good.key });
        expect(await send(known, await observer.topic())).toEqual([{ ok: true }]);
        await known.close!();
        await strict.close();
      });
    },
  );
});
