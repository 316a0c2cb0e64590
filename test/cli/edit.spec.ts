import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeOnEach } from '../support/services.js';
import { until } from '../support/until.js';
import { useStuck } from './support/stuck.js';

/** Each call is a process that loads Nest and TypeORM. */
jest.setTimeout(600_000);

describeOnEach([], 'the command line', (kind) => {
  const { stuck, cli } = useStuck(kind);

  it('edits a dead message: shows what would differ, keeps what it was, and requeues it', async () => {
    const [id = ''] = await stuck.dead(1, { headers: { tenant: 'secret-4711' } });
    const changes = ['--payload-json', '{"total":22}', '--header', 'trace=x=y', '--remove-header', 'tenant'];
    const preview = await cli.run(['edit', id, ...changes, '--topic', 'orders.v2', '--dry-run']);
    expect(preview).toMatchObject({ code: 0, stderr: '' });
    expect(preview.stdout.trimEnd().split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['WHAT', 'BEFORE', 'AFTER'],
      ['topic', 'orders', 'orders.v2'],
      ['header tenant', '***', '-'],
      ['header trace', '-', '***'],
      ['payload', '11 bytes', '12 bytes'],
    ]); // prettier-ignore
    expect((await cli.json(['show', id])).lines).toMatchObject([{ edits: [], transports: [{ topic: 'orders' }] }]);
    expect(await cli.run(['edit', id, ...changes])).toMatchObject({
      ...{ code: 2, stdout: '' },
      stderr: expect.stringMatching(/give --yes, or --dry-run/),
    });
    const stale = await cli.run(['edit', id, ...changes, '--expect', '0123456789abcdef', '--yes']);
    expect(stale).toMatchObject({ code: 1, stderr: expect.stringMatching(/has changed since it was looked at/) });

    const edited = await cli.json(['edit', id, ...changes, '--requeue', '--yes']);
    expect(edited).toMatchObject({ code: 0, lines: [{ action: 'edit', id, transport: 'default', requeued: true }] });
    const shown = await cli.run(['show', id, '--payload']);
    expect(shown.stdout).toMatch(/^content {7}\{"total":22\}$/m);
    expect(shown.stdout).toMatch(/^before edit \d+ of .*:\n {2}transport default, topic orders, .* headers tenant\n/m);
    expect(shown.stdout).toMatch(/^ {2}content \{"total":1\}$/m);
    expect(shown.stdout).not.toMatch('4711');
    expect((await cli.json(['list', id])).lines).toMatchObject([{ state: 'waiting', attempts: 0 }]);

    const file = join(cli.folder, 'payload.bin');
    await writeFile(file, Buffer.from([0, 255]));
    const bytes = ['--payload-file', file, '--content-type', 'application/octet-stream'];
    expect((await cli.run(['edit', id, ...bytes, '--yes'])).stdout).toMatch(/Edited 1 message\.\n$/);
    expect((await cli.json(['show', id, '--payload'])).lines).toMatchObject([
      { transports: [{ payloadBytes: 2, payload: { text: null, base64: 'AP8=' } }] },
    ]);
    expect((await cli.json(['audit'])).lines).toMatchObject([{ action: 'edit' }, { action: 'edit' }]);

    const [first] = edited.lines;
    const back = await cli.json(['edit', id, '--restore', String(first?.['auditId']), '--yes']);
    expect(back).toMatchObject({ code: 0, lines: [{ action: 'edit', requeued: false }] });
    expect((await cli.json(['show', id, '--payload'])).lines).toMatchObject([
      { transports: [{ topic: 'orders', payload: { text: '{"total":1}' } }] },
    ]);
    expect(await cli.run(['edit', id, '--restore', '1', '--topic', 'a', '--yes'])).toMatchObject({
      code: 2,
      stdout: '',
    });
    expect(await cli.run(['edit', id, '--restore', '999999', '--yes'])).toMatchObject({ code: 2, stdout: '' });

    await cli.run(['cancel', id, '--yes']);
    expect(await cli.run(['show', id])).toMatchObject({
      ...{ code: 0, stdout: expect.stringMatching(/^before edit \d+ of /m) },
      stderr: 'The message is gone: only its edits are kept.\n',
    });
  });

  it('refuses wrong edits in one line', async () => {
    const id = await stuck.enqueue();
    const ready = await cli.run(['edit', id, '--topic', 'x', '--yes']);
    expect(ready).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/it is ready, so that .*\n$/) });
    for (const [args, text] of [
      [['--yes'], /Give a change/],
      [['--payload-json', '{', '--yes'], /--payload-json is no valid JSON/],
      [['--payload-file', '/nowhere', '--yes'], /cannot be read: ENOENT/],
      [['--header', 'novalue', '--yes'], /It must be name=value/],
      [['--topic', 'x', '--transport', 'nobody', '--yes'], /no transport 'nobody'/],
    ] as const)
      expect(await cli.run(['edit', id, ...args])).toMatchObject({
        ...{ code: 2, stdout: '' },
        stderr: expect.stringMatching(text),
      });
    expect(await cli.json(['cancel', id, '--yes'])).toMatchObject({ code: 0 });
  });

  it('purges the archive by a filter', async () => {
    const key = 'customer-1';
    const ids = await stuck.during(
      async (outbox, transport) => {
        transport.refuses = false;
        const all = await outbox.enqueueOutsideTransaction(
          [1, 2, 3].map((n) => ({ type: 'a', key: n < 3 ? key : 'b', payload: n })),
        );
        await until(async () => (await outbox.stats()).total.ready === 0);
        return all;
      },
      { onPublished: 'archive' },
    );
    expect(await cli.run(['purge', '--yes'])).toMatchObject({ code: 2, stderr: expect.stringMatching(/Give ids, or/) });
    expect((await cli.run(['purge', '--key', key, '--dry-run'])).stdout).toBe(
      'purge would delete 2 messages of the archive and 0 old versions.\n',
    );
    expect(await cli.json(['purge', '--key', key, '--yes'])).toMatchObject({
      code: 0,
      lines: [{ action: 'purge', done: 2, versions: 0, interrupted: false }],
    });
    expect((await cli.json(['list', '--state', 'published', '--type', 'a'])).lines).toMatchObject([{ id: ids[2] }]);
    expect(await cli.run(['purge', '--key', key, '--yes'])).toMatchObject({
      code: 3,
      stdout: 'Deleted 0 messages of the archive and 0 old versions.\n',
    });
    expect(await cli.json(['purge', ...ids, '--yes'])).toMatchObject({ code: 0, lines: [{ done: 1 }] });
  });
});
