import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSettings } from '../../../lib/cli/connect/settings.js';

describe('where the outbox is', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'outbox-settings-'));
    await writeFile(join(folder, 'app.module.js'), '');
    await writeFile(
      join(folder, 'outbox.config.json'),
      JSON.stringify({ url: 'mysql://of.file/d', prefix: 'file_', timeout: '2s' }),
    );
  });
  afterAll(() => rm(folder, { recursive: true }));
  const env = { OUTBOX_DATABASE_URL: 'postgres://of.env/d' };

  it.each([
    ['the config file', {}, {}, { uri: 'mysql://of.file/d', connectTimeout: 2_000 }],
    ['the environment before it', {}, env, { connectionString: 'postgres://of.env/d', connectionTimeoutMillis: 2_000 }],
    ['an option before both', { url: 'mariadb://of.option/d', timeout: 1_000 }, env, { connectTimeout: 1_000 }],
  ])('%s says it', async (_, options, environment, wanted) => {
    const settings = await readSettings(options, environment, folder);
    expect(settings).toMatchObject({
      name: 'default',
      source: { kind: 'database', folder, prefix: 'file_', options: wanted },
    });
  });

  it('reads a JSON file that begins with a byte order mark', async () => {
    await writeFile(join(folder, 'marked.json'), '\ufeff{ "url": "mysql://a/d" }');
    expect(await readSettings({ config: 'marked.json' }, {}, folder)).toMatchObject({ source: { prefix: 'outbox_' } });
  });

  it('a module by an option beats a database of the environment', async () => {
    const { source } = await readSettings({ module: 'app.module.js', export: 'Shop' }, env, folder);
    expect(source).toEqual({ kind: 'module', file: join(folder, 'app.module.js'), exported: 'Shop' });
  });

  it.each([
    [
      { module: 'app.module.js', url: 'mysql://a/d' },
      'The options name more than one of module and database: give one.',
    ],
    [{ module: 'app.module.js', prefix: 'a_' }, '--schema and --prefix go with a database'],
    [{ url: 'mysql://a/d', schema: 'Tenant-1' }, 'Another database is named by the URL.'],
    [{ url: 'postgres://a/d', schema: '' }, 'The schema must have lower-case letters'],
    [{ config: 'wrong.json' }, "has 'prefx'. Did you mean 'prefix'?"],
    [{ config: 'list.json' }, 'must have an object as its default export.'],
    [{ config: 'number.json' }, 'schema must be a string.'],
    [{ config: 'inherited.json' }, "has 'constructor'"],
    [{ config: 'nothing.json' }, 'dataSource must be an object.'],
    [{ config: 'other.json' }, 'The type of the dataSource must be postgres, mysql or mariadb.'],
    [{ config: 'long.json' }, "timeout must be a duration such as '30s', and 1d at most."],
    [{ url: 'postgres://shop:50%-hunter2@host/d' }, 'The database URL has a % that begins no escape: write it as %25.'],
    [{ url: 'postgres://shop:hunter#2@host/d' }, 'The database URL is no URL.'],
    [{ module: '.' }, 'is not there. Build the application first.'],
  ])('%j is refused', async (options, text) => {
    await writeFile(join(folder, 'wrong.json'), '{ "prefx": "a" }');
    await writeFile(join(folder, 'list.json'), '[]');
    await writeFile(join(folder, 'number.json'), '{ "schema": 1 }');
    await writeFile(join(folder, 'inherited.json'), '{ "constructor": "a" }');
    await writeFile(join(folder, 'nothing.json'), '{ "dataSource": null }');
    await writeFile(join(folder, 'other.json'), '{ "dataSource": { "type": "sqlite" } }');
    await writeFile(join(folder, 'long.json'), '{ "timeout": "30d" }');
    await expect(readSettings(options, {}, folder)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining(text),
    });
  });
});
