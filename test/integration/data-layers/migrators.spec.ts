import { readdir } from 'node:fs/promises';
import { describeOnEach } from '../../support/services.js';
import { useMigrators } from './migrator-folder.js';

jest.setTimeout(600_000);

describeOnEach([], 'migrate create, run by the migrator that it is for', (kind) => {
  const { create, compile, folder, isPostgres, makeDrizzle, migrate, path, run, sendPrisma } = useMigrators(kind);
  const starts = async (ordering?: string): Promise<void> => {
    expect(await migrate('status')).toMatchObject({ code: 0 });
    expect(await run('start.mjs', undefined, ordering)).toBe('heard\n');
  };

  it.each(['knex', 'kysely', 'mikro-orm'] as const)(
    '%s: both ways, and the outbox starts on the tables',
    async (migrator) => {
      expect(await create(migrator)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('The folder migrations is not there.'),
      });
      await folder('migrations');
      const { code, stdout } = await create(migrator, '--ordering', 'strict', '--partitioned-archive');
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/^A migrations\/(Migration)?\d{14}_outbox\.([cm]j|t)s\n$/),
      ]);
      expect((await create(migrator)).stdout).toMatch(/is there already\n$/);
      if (migrator === 'mikro-orm') await compile(stdout.slice('A '.length, -1));
      await run(`${migrator}.mjs`);
      await starts('strict');
      await run(`${migrator}.mjs`, 'down');
      expect(await migrate('status')).toMatchObject({ code: 3 });
    },
  );

  it('drizzle: fills the file that drizzle-kit made', async () => {
    await folder('drizzle/meta');
    expect(await create('drizzle')).toMatchObject({
      code: 2,
      stderr:
        "nestjs-outbox: drizzle has no migration 'outbox'. Make an empty one: npx drizzle-kit generate --custom --name outbox.\n",
    });
    await makeDrizzle('outbox');
    expect((await create('drizzle', '--ordering', 'strict')).stdout).toBe('A drizzle/0000_outbox.sql\n');
    expect((await create('drizzle')).stdout).toBe('= drizzle/0000_outbox.sql is there already\n');
    await run('drizzle.mjs');
    await starts('strict');
  });

  it('prisma: a folder of its own, of another outbox too', async () => {
    await folder('prisma/migrations');
    expect((await create('prisma')).stdout).toMatch(/^A prisma\/migrations\/\d{14}_outbox\/migration\.sql\n$/);
    expect((await create('prisma', '--prefix', 'audit_')).stdout).toMatch(/_audit\/migration\.sql\n$/);
    const [made = ''] = (await readdir(path('prisma/migrations'))).filter((name) => name.endsWith('_outbox'));
    if (!isPostgres) return;
    await sendPrisma(`prisma/migrations/${made}/migration.sql`);
    await starts();
  });
});
