import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { Applications, build, countedHealth, LineLogger, typeOrm } from '../nest/support/app.js';
import { createUser, type DatabaseUser } from '../readme/sql.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';

const WARNING = /^warn .*Row security hides rows of the outbox/s;

describeWith('postgres', 'a relay whose tables are under row level security', () => {
  const applications = new Applications();
  let database: TestDatabase;
  let admin: DataSource;
  let owner: DatabaseUser;
  let relay: DatabaseUser;
  let logger: LineLogger;
  let transport: RecordingTransport;
  const nameOf = ({ url }: DatabaseUser): string => new URL(url).username;

  const start = ({ url }: DatabaseUser, setup: 'check' | 'create' = 'check') => {
    [transport, logger] = [new RecordingTransport(), new LineLogger()];
    const outbox = { relay: 'manual', transports: { default: transport }, database: { setup }, logger } as const;
    const options = { ...database.options, url } as DataSourceOptions;
    return applications.start(build([typeOrm({ ...database, options }), OutboxModule.forRoot(outbox)]));
  };

  beforeEach(async () => {
    database = await createTestDatabase('postgres');
    admin = await new DataSource({ ...database.options, poolSize: 1 } as DataSourceOptions).initialize();
    owner = await createUser(admin, 'postgres', 'nobody that a page names');
    await admin.query(`grant create on schema public to ${nameOf(owner)}`);
    const outbox = (await start(owner, 'create')).get(OutboxService);
    await outbox.enqueueOutsideTransaction(['seen', 'hidden'].map((key) => ({ type: 't', key, payload: key })));
    relay = await createUser(admin, 'postgres', 'shop_relay');
    await admin.query('alter table outbox_ready enable row level security');
    await admin.query(`create policy part on outbox_ready using (key = 'seen')`);
  });
  afterEach(async () => {
    await applications.close();
    await relay.drop();
    await owner.drop();
    await admin.destroy();
    await database.drop();
  });

  const publishesAs = async (user: DatabaseUser, keys: readonly string[], hidden: boolean): Promise<void> => {
    const app = await start(user);
    await app.get(OutboxDispatcher).drain();
    expect(transport.published.map(({ key }) => key).sort()).toEqual(keys);
    expect(logger.lines.some((line) => WARNING.test(line))).toBe(hidden);
    const { reasons } = await countedHealth(app.get(OutboxService));
    expect(reasons.some(({ code }) => code === 'rows_hidden')).toBe(hidden);
    expect(await admin.query('select key from outbox_ready')).toEqual(hidden ? [{ key: 'hidden' }] : []);
  };

  it('I5: never publishes what a policy hides from it, and says so', () => publishesAs(relay, ['seen'], true));

  it('I5: sees every row with bypassrls', async () => {
    await admin.query(`alter role ${nameOf(relay)} bypassrls`);
    await publishesAs(relay, ['hidden', 'seen'], false);
  });

  it('I5: sees every row as the owner', () => publishesAs(owner, ['hidden', 'seen'], false));

  it('I5: sees as the owner what the policy lets it see, where it is forced', async () => {
    await admin.query('alter table outbox_ready force row level security');
    await publishesAs(owner, ['seen'], true);
  });
});
