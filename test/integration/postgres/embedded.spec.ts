import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Client } from 'pg';
import { startEmbeddedPostgres } from '../../../sample/01-quick-start/src/embedded-postgres.js';

/** One question on a connection of its own. */
async function ask(url: string, sql: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query({ text: sql, rowMode: 'array' });
    return (rows as unknown[][])[0]?.[0];
  } finally {
    await client.end();
  }
}

describe('the PostgreSQL that needs no installation', () => {
  it('answers while it runs, and leaves neither process nor files', async () => {
    const server = await startEmbeddedPostgres();
    const dataDir = String(await ask(server.url, 'show data_directory'));
    expect(existsSync(dataDir)).toBe(true);
    await server.stop();
    await expect(ask(server.url, 'select 1')).rejects.toThrow('ECONNREFUSED');
    expect(existsSync(dirname(dataDir))).toBe(false);
    expect(() => process.kill(server.pid, 0)).toThrow('ESRCH');
  });

  it('lets nobody in without its random password, where one is asked for', async () => {
    const server = await startEmbeddedPostgres({ password: true });
    try {
      expect(await ask(server.url, 'select 7')).toBe(7);
      const url = new URL(server.url);
      expect(url.password).toMatch(/^[0-9a-f]{48}$/);
      url.password = 'another';
      await expect(ask(url.href, 'select 7')).rejects.toThrow('password authentication failed');
    } finally {
      await server.stop();
    }
  });

  it('keeps a given data folder from one start to the next', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'outbox-kept-'));
    // Under root the server runs as another user, who must get there.
    await chmod(folder, 0o755);
    try {
      const dataDir = join(folder, 'data');
      const first = await startEmbeddedPostgres({ dataDir });
      await ask(first.url, 'create table kept as select 7 as n');
      await first.stop();
      const second = await startEmbeddedPostgres({ dataDir });
      const kept = await ask(second.url, 'select n from kept');
      await second.stop();
      expect(kept).toBe(7);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
