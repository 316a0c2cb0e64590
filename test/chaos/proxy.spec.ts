import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { TcpProxy } from '../support/tcp-proxy.js';

/** A network that changes the order of bytes would make brokers say what they never said. */
it('delays bytes and never changes their order, whatever the delay becomes meanwhile', async () => {
  const LINES = 20_000;
  const server = createServer((socket) => {
    const send = async (): Promise<void> => {
      for (let n = 0; n < LINES; n += 1) {
        socket.write(`${n}\n`);
        if (n % 10 === 0) await turn();
      }
      socket.end();
    };
    void send();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy = await TcpProxy.start(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = connect(proxy.port, proxy.host);
  let received = '';
  client.setEncoding('latin1').on('data', (text: string) => (received += text));
  const end = once(client, 'close', { signal: AbortSignal.timeout(120_000) });
  const changing = setInterval(() => proxy.set({ delay: Math.random() < 0.5 ? 0 : Math.random() * 20 }), 1);
  await end;
  clearInterval(changing);
  await proxy.close();
  server.close();
  const numbers = received.trimEnd().split('\n').map(Number);
  expect(numbers.findIndex((n, index) => n !== index)).toBe(-1);
  expect(numbers).toHaveLength(LINES);
});
