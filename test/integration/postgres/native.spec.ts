import pg from 'pg';
import type { DataSourceOptions } from 'typeorm';
import { OutboxModule } from '../../../lib/index.js';
import { Applications, build, failure, quiet, typeOrm } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith } from '../../support/services.js';

/** As a client of pg-native looks: all that it does goes through what it has in `native`. */
class NativeClient extends pg.Client {
  readonly native = {};
}

describeWith('postgres', 'a DataSource that has taken pg-native', () => {
  let database: TestDatabase;
  const applications = new Applications();
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterEach(() => applications.close());
  afterAll(() => database?.drop());

  const driver = { ...pg, native: { ...pg, Client: NativeClient } };
  const application = (more: object, setup: 'create' | 'none') => {
    const options = { ...database.options, nativeDriver: {}, ...more } as DataSourceOptions;
    return build([typeOrm({ ...database, options }), OutboxModule.forRoot(quiet({ database: { setup } }))]);
  };

  it.each(['create', 'none'] as const)('is refused at the start, with setup %s', async (setup) => {
    expect(await failure(application({ driver }, setup))).toMatchObject({
      code: 'UNSUPPORTED_DATABASE',
      message: expect.stringMatching(/^The application reaches PostgreSQL through pg-native.*driver: \{ \.\.\.pg \}/s),
    });
  });

  it('starts with the driver that the text gives', async () => {
    await applications.start(application({ driver: { ...pg } }, 'create'));
  });
});
