import { createTestDatabase } from '../../test/support/databases.js';
import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

describeWith(['postgres', 'kafka'], 'sample 02', () => {
  it('tells the audit everything, in order per account', async () => {
    const database = await createTestDatabase('postgres');
    const env = { DATABASE_URL: database.url, KAFKA_BROKERS: requiredUrl('kafka') };
    const output = await new SampleRun(['02-kafka'], env).finish(170_000);
    await database.drop();
    expect(output).toMatch(/rolled back: .*violates check constraint/);
    expect(output).toMatch(/ben {2}account\.closed {2}x-branch - {2}null\n/);
    expect(output).toMatch(/OK: 7 messages, in order per account\n+exit 0$/);
  });
});
