// @tier gate
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NestApplication } from '../../cli/support/nest-application.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { compiledApplication } from '../../support/data-layer-application.js';
import { describeWith } from '../../support/services.js';

const FOLDER = join(__dirname, 'store');

function filesOf(folder: string): Record<string, string> {
  const names = readdirSync(join(FOLDER, folder));
  const place = (name: string): string => (name.endsWith('.prisma') ? `prisma/${name}` : `src/${name}`);
  return Object.fromEntries(names.map((name) => [place(name), readFileSync(join(FOLDER, folder, name), 'utf8')]));
}

/** What the tutorial of `@nestjs/outbox` builds: an order and its message commit together, and two handlers follow. */
describeWith('postgres', 'the store of the official tutorial', () => {
  let database: TestDatabase;
  let app: NestApplication | undefined;

  beforeEach(async () => {
    app = undefined;
    database = await createTestDatabase('postgres');
  });
  afterEach(async () => {
    app?.remove();
    await database.drop();
  });

  it.each(['typeorm', 'drizzle', 'prisma'])(
    'with %s: an order is mailed and reserved once after its commit; one that is refused leaves nothing',
    async (layer) => {
      app = await compiledApplication({ ...filesOf('shared'), ...filesOf(layer) }, database.url);
      const { code, stdout, stderr } = await app.node(['dist/try.js']);
      expect({ code, stderr, said: JSON.parse(stdout || '0') as unknown }).toEqual({
        code: 0,
        stderr: '',
        said: { refused: [true, true, true, true], orders: [1360], reserved: [2, 3], mails: 1 },
      });
    },
  );
});
