import type { PayloadEncryption } from '../../lib/index.js';
import { describeWith, requiredUrl } from '../support/services.js';
import { Cli } from './support/cli.js';
import { Stuck } from './support/stuck.js';

jest.setTimeout(600_000);

const CANARY = 'canary-7f3a9c';
const PASSWORD = 'hunter2-canary';

/** What it encrypts can be told from what it got. */
const encryption: PayloadEncryption = {
  encrypt: (plaintext) => ({ ciphertext: Buffer.from(plaintext).reverse(), keyId: 'key-1' }),
  decrypt: ({ ciphertext }) => Buffer.from(ciphertext).reverse(),
};

describeWith(['postgres', 'mariadb'], 'secrets', () => {
  let stuck: Stuck;
  let cli: Cli;
  let id: string;
  beforeAll(async () => {
    stuck = await Stuck.create('postgres');
    const message = { type: 'a', topic: 'a', key: 'k', payload: { card: CANARY }, headers: { authorization: CANARY } };
    id = await stuck.during((outbox) => outbox.enqueueOutsideTransaction(message, {}), { relay: false, encryption });
    const url = new URL(stuck.database.url);
    url.password = PASSWORD; // the server asks for none
    cli = await Cli.create({ OUTBOX_DATABASE_URL: url.href });
  });
  afterAll(async () => {
    await cli?.remove();
    await stuck?.remove();
  });

  it('of messages and of the connection are in no output', async () => {
    for (const args of [['status'], ['list'], ['show', id, '--payload'], ['explain', id], ['dead'], ['buckets']]) {
      for (const more of [[], ['--json']]) {
        const { code, stdout, stderr } = await cli.run([...args, ...more]);
        expect({ args, code }).toEqual({ args, code: /status|dead/.test(args[0] as string) ? 3 : 0 });
        const reversed = [...CANARY].reverse().join('');
        for (const secret of [CANARY, reversed, PASSWORD, Buffer.from(reversed).toString('base64').slice(0, 12)])
          expect(stdout + stderr).not.toContain(secret);
      }
    }
    const shown = await cli.run(['show', id, '--payload']);
    expect(shown.stdout).toMatch(/^headers {7}authorization$/m);
    expect(shown.stdout).toMatch(/^payload .* encrypted with key 'key-1'$/m);
  });

  it('of a connection that fails are in no error', async () => {
    const wrong = [stuck.database.url, requiredUrl('mariadb')].map((text) => {
      const url = new URL(text);
      url.username = 'nobody_canary';
      url.password = PASSWORD;
      return url.href;
    });
    for (const OUTBOX_DATABASE_URL of wrong) {
      const { code, stdout, stderr } = await cli.run(['status'], { OUTBOX_DATABASE_URL });
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(/^nestjs-outbox: [^\n]*nobody_canary[^\n]*\n$/);
      expect(stderr).not.toMatch(PASSWORD);
    }
  });
});
