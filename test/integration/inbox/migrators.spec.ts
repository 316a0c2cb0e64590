import { describeOnEach } from '../../support/services.js';
import { useMigrators } from '../data-layers/migrator-folder.js';

jest.setTimeout(600_000);

describeOnEach([], 'migrate create --inbox, run by the migrator that it is for', (kind) => {
  const { create, compile, folder, isPostgres, makeDrizzle, migrate, run, sendPrisma } = useMigrators(kind);

  it.each([
    ['typeorm', 'src/migrations'],
    ['knex', 'migrations'],
    ['kysely', 'migrations'],
    ['mikro-orm', 'migrations'],
    ['drizzle', 'drizzle'],
    ['prisma', 'prisma/migrations'],
  ] as const)('%s: the inbox starts on the tables', async (migrator, place) => {
    await folder(migrator === 'drizzle' ? 'drizzle/meta' : place);
    if (migrator === 'drizzle') await makeDrizzle('outbox_inbox');
    const { stdout, stderr } = await create(migrator, '--inbox');
    expect([stdout, stderr]).toEqual([expect.stringMatching(/^A .*inbox/), '']);
    const file = stdout.slice('A '.length, -1);
    if (file.endsWith('.ts')) await compile(file);
    if (migrator !== 'prisma') await run(`${migrator}.mjs`);
    else if (isPostgres) await sendPrisma(file);
    else return;
    expect(await run('once.mjs')).toBe('handled\nduplicate\n');
    if (migrator === 'drizzle' || migrator === 'prisma') return; // they have no way down
    await run(`${migrator}.mjs`, 'down');
    expect(await migrate('status', '--inbox')).toMatchObject({ code: 3 });
  });
});
