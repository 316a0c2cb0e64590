import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createTestDatabase } from '../../test/support/databases.js';
import { describeWith } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

describeWith(['postgres'], 'sample 08', () => {
  it('hands each order that was committed to its handler, in order per customer, and of the coupons the one that was good', async () => {
    const database = await createTestDatabase('postgres');
    const output = await new SampleRun(['08-drizzle'], { DATABASE_URL: database.url }).finish(170_000);
    await database.drop();
    expect(output).toMatch(/24 orders at once, 6 of them rolled back/);
    expect(output).toMatch(/18 orders, 19 letters, 0 messages left\n/);
    expect(output).toMatch(/OK: 18 orders and one coupon, in order per customer\n+exit 0$/);
  });

  /** It has a program of its own: its transactions have another type than those of TypeORM. */
  it('compiles', async () => {
    const compiler = ['node_modules/typescript7/bin/tsc', '--noEmit', '-p', 'sample/08-drizzle'];
    const { stdout } = await promisify(execFile)(process.execPath, compiler).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe('');
  });
});
