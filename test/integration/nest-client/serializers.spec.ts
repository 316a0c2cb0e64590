import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { CLIENTS, quiet } from '../../support/nest-clients.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

interface Serialized {
  serializer: { serialize(packet: unknown, options?: unknown): unknown };
}

for (const { kind, services, client: make, listen } of CLIENTS) {
  const waits = kind === 'ClientNats';
  describeWith(services, `a serializer that promises, of ${kind}`, () => {
    const title = waits ? 'is waited for' : 'costs no attempt, and nothing is sent for it; one that does not is heard';
    it(`X2: ${title}`, async () => {
      const topic = `outbox-serializer-${process.pid}-${kind}`;
      const server = await listen(topic);
      const { hostname, port } = new URL(server.address);
      const client = make(hostname, Number(port));
      const of = client as unknown as Serialized;
      const own = of.serializer;
      const promising = { promises: true, serialize: (...given: [unknown]) => own.serialize(...given) };
      of.serializer = {
        serialize: (...given: [unknown]) =>
          promising.promises ? Promise.resolve(promising.serialize(...given)) : promising.serialize(...given),
      };
      const transport = await clientProxy({ client, allowUnconfirmed: true }).create();
      const send = async (): Promise<unknown> =>
        (await probePublish(transport, [contractMessage({ topic, payload: '{"n":1}' })], { timeout: 60_000 }))
          .results[0];
      const refused = {
        ok: false,
        blame: 'transport',
        error: { code: 'TRANSPORT_UNAVAILABLE', message: expect.stringContaining('serializer') },
      };
      expect(await send()).toMatchObject(waits ? { ok: true } : refused);
      if (waits) await until(() => server.heard.length === 1);
      await quiet(server);
      expect(server.heard).toEqual(waits ? [{ n: 1 }] : []);
      promising.promises = false;
      expect(await send()).toEqual({ ok: true });
      await until(() => server.heard.length === (waits ? 2 : 1));
      expect(server.heard.at(-1)).toEqual({ n: 1 });
      await transport.close?.();
      await server.close();
    });
  });
}
