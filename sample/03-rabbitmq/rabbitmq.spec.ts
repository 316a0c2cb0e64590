// @tier gate
import { createTestDatabase } from '../../test/support/databases.js';
import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

describeWith(['postgres', 'rabbitmq'], 'sample 03', () => {
  it('tells every parcel, also the one that nobody took at first', async () => {
    const database = await createTestDatabase('postgres');
    const env = { DATABASE_URL: database.url, RABBITMQ_URL: requiredUrl('rabbitmq') };
    const output = await new SampleRun(['03-rabbitmq'], env).finish(170_000);
    await database.drop();
    expect(output).toMatch(/nobody delivers to Norway: .*No queue takes/);
    expect(output).toMatch(/P-1 {2}parcel\.sent\.fr .* priority 5/);
    expect(output).toMatch(/OK: 3 parcels told\n+exit 0$/);
  });
});
