import { once } from 'node:events';
import { createServer } from 'node:net';
import { freePort } from '../../../bench/support/own-server.js';

describe('a port for a server of the tests', () => {
  it('is free, another one each time, and none that a connection to elsewhere may take', async () => {
    const ports = new Set<number>();
    for (let n = 0; n < 50; n += 1) ports.add(await freePort());
    expect(ports.size).toBe(50);
    const server = createServer().listen([...ports][0], '127.0.0.1');
    await once(server, 'listening');
    server.close();
    expect(Math.max(...ports)).toBeLessThan(32_768); // where Linux begins to take them for connections, and the lowest of all systems
  });
});
