import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

for (const kind of ['mysql', 'mariadb'] as const) {
  describeWith([kind, 'kafka'], `sample 06 on ${kind}`, () => {
    it('tells Kafka each reservation that was committed, in order per item, and archives it', async () => {
      const database = requiredUrl(kind).replace(/^\w+:/, `${kind}:`);
      const env = { MYSQL_URL: database, KAFKA_BROKERS: requiredUrl('kafka') };
      const output = await new SampleRun(['06-mysql-kafka'], env).finish(170_000);
      expect(output).toMatch(/36 wishes at once, 6 of them rolled back/);
      expect(output).toMatch(/chair {2}left: 9 8 7 6 5 4 3 2 1 0\n/);
      expect(output).toMatch(/OK: 30 messages, in order per item\n30 messages in the archive\n+exit 0$/);
    });
  });
}
