import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

describeWith(['mariadb', 'rabbitmq'], 'sample 04', () => {
  it('enqueues in one process, publishes from another, and a Nest microservice gets the events', async () => {
    const env = { MARIADB_URL: requiredUrl('mariadb'), RABBITMQ_URL: requiredUrl('rabbitmq') };
    const output = await new SampleRun(['04-worker-and-api'], env).finish(170_000);
    expect(output).toMatch(/mails to ada: 2 4 6 8 10 12 14 16 18 20\nmails to ben: 1 3 5 7 9 11 13 15 17 19\n/);
    expect(output).toMatch(/OK: 20 mails, in order per customer\n+exit 0$/);
  });
});
