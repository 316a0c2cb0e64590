import { createTestDatabase, type TestDatabase } from '../../test/support/databases.js';
import { describeWith, requiredUrl, type Service } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

const BROKERS: readonly Service[] = ['nats', 'redis', 'sqs', 'mqtt'];

describeWith('postgres', 'sample 11', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterAll(async () => {
    await database.drop();
  });
  const run = (broker: Service, BROKER_URL: string): Promise<string> =>
    new SampleRun(['11-brokers', broker], { DATABASE_URL: database.url, BROKER_URL }).finish(170_000);

  for (const broker of BROKERS)
    describeWith(broker, `with ${broker}`, () => {
      it('has each order once, in the order of its customer', async () => {
        const output = await run(broker, requiredUrl(broker));
        expect(output).toMatch(/^(?:\w+ {2}1,2,3,4,5,6,7,8\n){4}32 orders, \d+ deliveries, 32 invoices$/m);
        expect(output).toMatch(new RegExp(`OK: ${broker} has each order once, in the order of its customer\n+exit 0$`));
      });
    });

  it.each(BROKERS)('says in one sentence that no %s is there', async (broker) => {
    const scheme = broker === 'sqs' ? 'http' : broker;
    const output = await run(broker, `${scheme}://shop:secret@127.0.0.1:1`);
    const said = `^No ${broker} answers at ${scheme}://127.0.0.1:1, which BROKER_URL names: .*refused.*\\.\n+exit 1$`;
    expect(output).toMatch(new RegExp(said, 'im'));
    expect(output).not.toContain('secret');
  });
});
