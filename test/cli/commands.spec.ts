import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { describeOnEach, describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { useStuck } from './support/stuck.js';

const KEY = 'customer-4711';
/** Each call is a process that loads Nest and TypeORM. */
jest.setTimeout(600_000);

describeOnEach([], 'the command line', (kind) => {
  const { stuck, cli } = useStuck(kind);

  it('says that nothing started yet, and what to do without tables', async () => {
    const before = await cli.run(['list']);
    expect(before).toMatchObject({ code: 1, stdout: '' });
    expect(before.stderr).toMatch(
      /^nestjs-outbox: The table .*.outbox_meta. is not there\. .*ake it with npx nestjs-outbox migrate upgrade\.\n$/,
    );
    await stuck.enqueue(); // makes the tables
    expect(await cli.json(['cancel', '--state', 'ready', '--yes'])).toMatchObject({ code: 0, lines: [{ done: 1 }] });
  });

  it('finds, shows and explains a stuck key, and repairs it', async () => {
    const [dead = ''] = await stuck.dead(1, { key: KEY });
    const behind = await stuck.enqueue({ key: KEY, type: 'order.paid' });

    const list = await cli.run(['list', '--key', KEY]);
    expect(list).toMatchObject({ code: 0, stderr: '' });
    const [head, ...rows] = list.stdout.trimEnd().split('\n');
    expect(head).toMatch(/^ID +STATE +TRANSPORT +TYPE +KEY +AGE +TRIES +LAST ERROR$/);
    expect(rows.map((row) => row.split(/ {2,}/).slice(0, 5))).toEqual([
      [dead, 'dead', 'default', 'order.placed', KEY],
      [behind, 'ready', 'default', 'order.paid', KEY],
    ]);
    const first = await cli.json(['list', '--key', KEY, '--limit', '1']);
    expect(first.lines).toMatchObject([{ id: dead, state: 'dead', attempts: 1, lastError: 'no', key: KEY }]);
    const after = /^There may be more: --after (\S+)\n$/.exec(first.stderr)?.[1] as string;
    expect((await cli.json(['list', '--key', KEY, '--after', after])).lines).toMatchObject([{ id: behind }]);

    const shown = await cli.run(['show', dead]);
    expect(shown.stdout).toMatch(/^state {9}dead$/m);
    expect(shown.stdout).not.toMatch('total');
    expect((await cli.run(['show', dead, '--payload'])).stdout).toMatch(/^content {7}\{"total":1\}$/m);

    const explained = await cli.run(['explain', behind]);
    expect(explained).toMatchObject({ code: 0, stderr: '' });
    expect(explained.stdout).toMatch(`blocked: It is blocked behind message ${dead} of its key`);
    expect(explained.stdout).toMatch(/^ {2}do: repair the message in front\./m);
    const [explanation] = (await cli.json(['explain', dead])).lines;
    expect(explanation).toMatchObject({ id: dead, reasons: [{ code: 'dead', facts: { attempts: 1 } }] });

    const status = await cli.run(['status']);
    expect(status).toMatchObject({ code: 3, stderr: '' });
    expect(status.stdout).toMatch(
      /^status: down\n {2}no_relay: 1 message for 'default', which no live relay publishes\.\n/,
    );
    expect(status.stdout).toMatch(/^default +1 +\w+ +0 +0 +0 +1 +1 +0$/m);
    expect((await cli.json(['status'])).lines).toMatchObject([{ status: 'down', total: { ready: 1, dead: 1 } }]);

    expect(await cli.json(['dead'])).toMatchObject({ code: 0, lines: [{ count: 1, error: 'no', exampleId: dead }] });
    expect((await cli.run(['requeue', dead, '--dry-run'])).stdout).toBe('requeue would change 1 message.\n');
    expect(await stuck.total()).toMatchObject({ dead: 1, blockedKeys: 1 });
    expect(await cli.run(['requeue', dead])).toEqual({ code: 0, stdout: 'Requeued 1 message.\n', stderr: '' });
    const left = await cli.json(['list', '--key', KEY]);
    expect(left.lines).toMatchObject([{ id: dead, state: 'waiting', attempts: 0 }, { id: behind }]);
    expect((await cli.run(['discard', dead, '--yes'])).stderr).toMatch(/1 message stayed: .* cancel deletes /); // not dead
    expect(await cli.json(['cancel', dead, behind, '--yes'])).toMatchObject({ code: 0, lines: [{ done: 2 }] });
  });

  it('shows the options of a message that has some', async () => {
    const id = await stuck.enqueue({ options: { priority: 5, expiration: '1m' } });
    const other = await stuck.enqueue();
    const options = '{"priority":5,"expiration":"1m"}';
    expect((await cli.run(['show', id])).stdout).toContain(`\noptions       ${options}\n`);
    expect((await cli.json(['show', id])).lines).toMatchObject([{ transports: [{ options }] }]);
    expect((await cli.run(['show', other])).stdout).not.toMatch(/^options/m);
    expect(await cli.json(['cancel', id, other, '--yes'])).toMatchObject({ code: 0, lines: [{ done: 2 }] });
  });

  it('has the doctor look: what is wrong, what it means and what to do', async () => {
    const [dead] = await stuck.dead(1, { type: 'doctor.dead' });
    const ids = [await stuck.enqueue({ key: 'waits' }), await stuck.enqueue({ key: 'waits' })];
    const doctor = await cli.run(['doctor', '--free-bytes', '1', '--outage', '2h']);
    expect(doctor).toMatchObject({ code: 3, stderr: '' });
    expect(doctor.stdout).toMatch(/^doctor: error \(\d+ looked at in [\d,]+ ms, \d+ more are ok\)\n/);
    expect(doctor.stdout).toMatch(/^error relay: No live relay publishes to 'default'\. 2 messages are ready\.$/m);
    expect(doctor.stdout).toMatch(/^ {2}do {7}Start a process with relay: true/m);
    expect(doctor.stdout).toMatch(/^warning outage-budget: .* until the disk is full; wanted are 2h\.$/m);
    expect(doctor.stdout).not.toMatch(/^ok /m);
    expect(doctor.stdout).toMatch(/^No broker was asked: .* Give --module/m);
    expect(doctor.stdout).toMatch(
      /^ {2}do {7}OutboxAdmin\.failures\(\).*\n {2}shell {4}npx nestjs-outbox dead\n {2}shell {4}npx nestjs-outbox requeue --type <type>\n/m,
    );
    expect((await cli.run(['doctor', '--all', '--skip-brokers'])).stdout).toMatch(
      /^ok database: The database answers\.$/m,
    );
    expect(await cli.run(['doctor', '--free-bytes', 'many'])).toMatchObject({ code: 2, stdout: '' });
    expect(await cli.json(['cancel', ...ids, '--yes'])).toMatchObject({ code: 0 });
    const [report] = (await cli.json(['doctor'])).lines;
    const letters = ((report?.['findings'] ?? []) as { evidence: object; commands: string[] }[]).find(
      ({ evidence }) => 'reason' in evidence && evidence.reason === 'dead_letters',
    );
    expect(letters?.commands[0]).toBe('npx nestjs-outbox dead');
    expect(await cli.json(['discard', dead as string, '--yes'])).toMatchObject({ code: 0 });
    const relay = { code: 'relay', severity: 'note', evidence: { readyMessages: 0 } };
    expect(report).toMatchObject({
      findings: expect.arrayContaining([expect.objectContaining({ code: 'schema', severity: 'ok' })]),
    });
    expect(report?.['findings']).toContainEqual(
      expect.objectContaining({ ...relay, evidence: expect.objectContaining(relay.evidence) }),
    );
  });

  it('discards by a filter, and releases a key', async () => {
    const type = 'order.lost';
    await stuck.dead(3, { type });
    const [held = ''] = await stuck.dead(1, { key: KEY });
    const selection = ['discard', '--type', type];
    expect(await cli.run(selection)).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'nestjs-outbox: discard asks before it begins, and there is no terminal to ask: give --yes, or --dry-run.\n',
    });
    expect(await cli.json([...selection, '--dry-run'])).toMatchObject({
      code: 0,
      lines: [{ action: 'discard', dryRun: true, count: 3 }],
    });
    expect(await stuck.total()).toMatchObject({ dead: 4 });
    expect((await cli.json([...selection, '--limit', '2', '--yes'])).lines).toMatchObject([{ done: 2, more: true }]);
    expect(await cli.run([...selection, '--yes'])).toEqual({
      code: 0,
      stdout: 'Discarded 1 message.\n',
      stderr: '',
    });
    expect(await cli.run([...selection, '--yes'])).toMatchObject({ code: 3, stdout: 'Discarded 0 messages.\n' });

    expect((await cli.run(['release', KEY, '--dry-run'])).stdout).toMatch('past 1 message that is dead');
    expect(await stuck.total()).toMatchObject({ blockedKeys: 1 });
    expect(await cli.json(['release', KEY, '--yes'])).toMatchObject({ code: 0, lines: [{ released: 1 }] });
    expect(await stuck.total()).toMatchObject({ dead: 1, blockedKeys: 0 });
    expect(await cli.json(['discard', held, '--yes'])).toMatchObject({ code: 0, lines: [{ done: 1 }] });

    expect((await cli.json(['audit', '--limit', '5'])).lines).toMatchObject([
      { action: 'discard', done: 1, outcome: 'done', filter: JSON.stringify({ ids: [held], state: ['dead'] }) },
      { action: 'release', done: 1, outcome: 'done' },
      { action: 'discard', done: 0, outcome: 'done' },
      { action: 'discard', done: 1, outcome: 'done', filter: JSON.stringify({ type }) },
      { action: 'discard', done: 2, outcome: 'done' },
    ]);
    expect((await cli.run(['audit', '--limit', '1'])).stdout).toMatch(/^ *ID +ACTION +BY .*\n *\d+ +discard /);
  });
});

describeWith('postgres', 'the other commands', () => {
  const { stuck, cli } = useStuck('postgres');
  beforeAll(() => stuck.enqueue({ key: KEY }));

  it('breaks the leases of an owner, and of nobody else', async () => {
    await stuck.during(async (outbox) => {
      const leased = async () => (await outbox.stats()).transports['default']?.leasedBuckets;
      await until(async () => (await leased()) === 32); // it starts before it has them
      const { lines } = await cli.json(['buckets', '--transport', 'default']);
      expect(lines).toHaveLength(32);
      const { owner } = lines.find(({ lease }) => lease === 'leased') as { owner: string };
      const held = lines.filter(({ lease }) => lease === 'leased').length;
      const some = ['break-leases', '--owner', owner, '--bucket', '0', '--bucket', '1'];
      expect(await cli.json([...some, '--dry-run'])).toMatchObject({ code: 0, lines: [{ count: 2 }] });
      expect(await leased()).toBe(held);
      expect(await cli.run(['break-leases', '--owner', uuidV7(), '--yes'])).toMatchObject({ code: 3 });
      const [broken] = (await cli.json([...some, '--yes'])).lines;
      expect(broken).toMatchObject({ action: 'break-leases', owners: [owner] });
      expect(broken?.['broken'] + broken?.['left']).toBe(2);
    });
  });

  it('cleans the archive, and leaves what is younger', async () => {
    await stuck.during(
      async (outbox, transport) => {
        transport.refuses = false;
        const ids = await outbox.enqueueOutsideTransaction(
          Array.from({ length: 3 }, () => ({ type: 'a', topic: 'a', key: null, payload: {} })),
          {},
        );
        const published = async () => (await cli.json(['list', '--state', 'published'])).lines;
        while ((await published()).length < ids.length);
        expect(await cli.run(['clean', '--older-than', '1h', '--yes'])).toMatchObject({ code: 3 });
        expect((await cli.json(['clean', '--older-than', '0s', '--dry-run'])).lines).toMatchObject([
          { count: 3, isExact: true },
        ]);
        expect(await cli.json(['clean', '--older-than', '0s', '--limit', '2', '--yes'])).toMatchObject({
          code: 0,
          lines: [{ action: 'clean', done: 2, interrupted: false }],
        });
        expect(await published()).toHaveLength(1);
      },
      { onPublished: 'archive' },
    );
  });

  it('cleans old dead messages where they are asked for, no more than --limit of both', async () => {
    await cli.run(['discard', '--state', 'dead', '--yes']);
    await cli.run(['clean', '--older-than', '0s', '--yes']);
    await stuck.dead(3);
    const dead = async (): Promise<number> => (await stuck.total())['dead'] as number;
    expect(await cli.run(['clean', '--older-than', '0s', '--yes'])).toMatchObject({ code: 3 });
    expect(await cli.run(['clean', '--older-than', '1h', '--include-dead', '--yes'])).toMatchObject({ code: 3 });
    expect(await dead()).toBe(3);
    const all = ['clean', '--older-than', '0s', '--include-dead'];
    expect((await cli.json([...all, '--dry-run'])).lines).toMatchObject([{ count: 3, isExact: true }]);
    expect(await cli.json([...all, '--limit', '2', '--yes'])).toMatchObject({
      code: 0,
      lines: [{ action: 'clean', done: 2, dead: 2, interrupted: false }],
    });
    expect(await dead()).toBe(1);
    expect(await cli.run([...all, '--yes'])).toMatchObject({
      code: 0,
      stdout: 'Deleted 0 messages of the archive, and 1 dead.\n',
    });
  });

  it('replays the archive: says what it would do, does it, and says how to go on', async () => {
    const empty = await cli.run(['replay', '--from', '1h', '--type', 'again', '--dry-run']);
    expect(empty).toMatchObject({ code: 3, stdout: 'replay would publish 0 messages again.\n' });
    const archived = async (): Promise<number> => (await cli.json(['list', '--state', 'published'])).lines.length;
    await stuck.during(
      async (outbox, transport) => {
        transport.refuses = false;
        const before = await archived();
        const all = Array.from({ length: 5 }, () => ({ type: 'again', topic: 'orders', key: 'k', payload: {} }));
        await outbox.enqueueOutsideTransaction(all, {});
        while ((await archived()) < before + 5);
      },
      { onPublished: 'archive' },
    );
    const replay = ['replay', '--from', '1h', '--type', 'again'];
    expect(await cli.run(replay)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('give --yes, or --dry-run'),
    });
    const dry = await cli.run([...replay, '--dry-run']);
    expect(dry).toMatchObject({ code: 0, stderr: '' });
    expect(dry.stdout).toMatch(/^replay would publish 5 messages again; published from \S+Z to \S+Z, 10 bytes\.\n/);
    expect(dry.stdout).toMatch(
      /^transports {2}default 5\ntypes {7}again 5\ntopics {6}orders 5\nall of them:\nID +PUBLISHED/m,
    );
    const [preview] = (await cli.json([...replay, '--dry-run'])).lines;
    expect(preview).toMatchObject({ action: 'replay', dryRun: true, count: 5, types: [{ name: 'again', count: 5 }] });
    expect(preview?.['messages']).toHaveLength(5);
    expect(await cli.run(['list', '--state', 'ready', '--type', 'again'])).toMatchObject({ code: 3 });
    const ids = (preview?.['messages'] as { id: string }[] | undefined)?.map(({ id }) => id) ?? [];
    expect(await cli.json(['replay', ...ids.slice(0, 2), '--yes'])).toMatchObject({
      code: 0,
      lines: [{ action: 'replay', auditId: expect.any(String), done: 2, skipped: 0, interrupted: false }],
    });
    expect(await cli.run([...replay, '--per-second', '100', '--yes'])).toEqual({
      code: 0,
      stdout: 'Replayed 5 messages.\n',
      stderr: '',
    });
    expect((await cli.json(['list', '--state', 'ready', '--type', 'again'])).lines.map(({ id }) => id)).toEqual(
      expect.arrayContaining(ids),
    );
    const [audit] = (await cli.json(['audit', '--limit', '1'])).lines;
    expect(audit).toMatchObject({ action: 'replay', done: 5, outcome: 'done' });
    const resumed = await cli.run(['replay', '--resume', String(audit?.['id']), '--yes']);
    expect(resumed).toMatchObject({ code: 2, stderr: expect.stringContaining('there is nothing to resume') });
    expect(resumed.stderr).not.toMatch('goes on'); // nothing was begun
    expect(await cli.json(['cancel', '--type', 'again', '--yes'])).toMatchObject({ lines: [{ done: 7 }] });
  });

  it('tells by its exit code that nothing was found', async () => {
    for (const args of [
      ['list', '--key', 'nobody'],
      ['show', uuidV7()],
      ['explain', uuidV7()],
      ['dead', '--type', 'none'],
    ]) {
      expect({ args, ...(await cli.run([...args, '--json'])) }).toMatchObject({ args, code: 3 });
    }
    const unknown = uuidV7();
    expect(await cli.json(['requeue', unknown])).toMatchObject({ code: 3, lines: [{ done: 0, notFound: [unknown] }] });
    const refused = await cli.run(['list', '--transport', 'nowhere']);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toBe("nestjs-outbox: find: there is no transport 'nowhere'. Known are: default.\n");
  });
});
