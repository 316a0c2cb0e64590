import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { CLIENTS, type NestServer, quiet } from '../../support/nest-clients.js';
import { describeWith } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

/** Of a publish or a connect that gets no answer. That a publish ends soon after it is said by `probePublish`. */
const TIMEOUT = 1_000;

describe.each(CLIENTS)(
  'clientProxy() over $kind and a server that is silent',
  ({ services, answers, client, listen }) => {
    describeWith(services, 'whose old connections stay open', () => {
      let topic: string;
      let server: NestServer;
      let proxy: TcpProxy;
      let transport: OutboxTransport;
      beforeEach(async () => {
        topic = `silent.${randomUUID()}`;
        server = await listen(topic);
        proxy = await TcpProxy.start(server.address, { silent: true });
        transport = await clientProxy({ client: client(proxy.host, proxy.port), allowUnconfirmed: true }).create();
      });
      afterEach(async () => {
        await transport.close?.();
        await proxy.close();
        await server.close();
      });

      const publish = async (payloads: readonly string[], timeout = TIMEOUT): Promise<string[]> => {
        const batch = payloads.map((payload, n) =>
          contractMessage({ topic, key: `k${n}`, payload: JSON.stringify(payload) }),
        );
        const { results } = await probePublish(transport, batch, { timeout });
        return [...new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))];
      };
      const published = (payload: string): Promise<void> =>
        until(async () => (await publish([payload], 10_000)).join() === 'ok', 60_000);

      it('C19: fails in time, sends nothing of it later, and connects anew', async () => {
        await transport.connect!(AbortSignal.timeout(60_000));
        await published('before');
        const [{ accepted, bytesUp }, { left }] = [proxy, proxy];
        proxy.stall();
        // More than kernels hold.
        const large = Array.from({ length: 300 }, (_, n) => `${n} ${'x'.repeat(40_000)}`);
        expect(await publish(large)).toContain('transport');
        await published('after');
        expect(proxy.accepted).toBeGreaterThan(accepted);
        await until(() => server.heard.includes('after'));
        proxy.resume();
        await until(() => proxy.left > left);
        await quiet(server);
        // What the other side's kernel had taken was on its way.
        expect(proxy.bytesUp - bytesUp).toBeLessThan(4_000_000);
        expect(server.heard.filter((data) => typeof data === 'string' && data.length > 1_000).length).toBeLessThan(100);
      });

      it('C19: ends, whatever it waits for', async () => {
        await transport.connect!(AbortSignal.timeout(60_000));
        await published('before');
        proxy.stall();
        await transport.close!();
        proxy.resume();
        await until(() => proxy.open === 0);
      });

      // Of the others nothing is heard anyway.
      if (!answers) return;

      it('C19: what was taken and not answered is not published', async () => {
        await transport.connect!(AbortSignal.timeout(60_000));
        await published('before');
        proxy.stall();
        expect(await publish(['small'])).toEqual(['transport']);
        await published('after');
      });

      it('C19: a connect without an answer does not stay for the next one', async () => {
        proxy.set({ up: 'hold', down: 'hold' });
        await expect(transport.connect!(AbortSignal.timeout(TIMEOUT))).rejects.toThrow();
        proxy.heal();
        await published('after');
      });
    });
  },
);
