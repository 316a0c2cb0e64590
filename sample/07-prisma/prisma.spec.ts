import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createTestDatabase } from '../../test/support/databases.js';
import { describeWith, requiredUrl } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

describeWith(['postgres', 'rabbitmq'], 'sample 07', () => {
  it('tells RabbitMQ and a handler each sale that was committed, in order per concert', async () => {
    const database = await createTestDatabase('postgres');
    const env = { DATABASE_URL: database.url, RABBITMQ_URL: requiredUrl('rabbitmq') };
    const output = await new SampleRun(['07-prisma'], env).finish(170_000);
    await database.drop();
    expect(output).toMatch(/36 guests at once, 6 of them rolled back/);
    expect(output).toMatch(/choir {2}left: 9 8 7 6 5 4 3 2 1 0\n/);
    expect(output).toMatch(/30 sales told the box office, 30 mails sent, 0 messages left\n/);
    expect(output).toMatch(/OK: 30 sales, in order per concert\n+exit 0$/);
  });

  /** It has a program of its own: its transactions have another type than those of TypeORM. */
  it('compiles, with the client that it generated', async () => {
    const compiler = ['node_modules/typescript7/bin/tsc', '--noEmit', '-p', 'sample/07-prisma'];
    const { stdout } = await promisify(execFile)(process.execPath, compiler).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe('');
  });
});
