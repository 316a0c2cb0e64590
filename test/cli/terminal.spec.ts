import { DataSource } from 'typeorm';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { CTRL_C } from './support/cli.js';
import { useStuck } from './support/stuck.js';

jest.setTimeout(600_000);

const COLOR = /\u001b\[\d+m/;
const lines = (text: string): string[] => text.replaceAll(/\u001b\[\d*m/g, '').split(/\r?\n/);
const widest = (text: string): number => Math.max(...lines(text).map((line) => Array.from(line).length));

/** `script` of util-linux, which every Debian has, makes the terminal. */
describeWith('postgres', 'in a terminal', () => {
  const BULK = 'order.bulk';
  const LONG = 'a-key-that-is-longer-than-a-narrow-terminal-can-show-beside-all-the-others';
  const { stuck, cli } = useStuck('postgres', false);
  beforeAll(async () => {
    await stuck.dead(2_300, { type: BULK });
    await stuck.enqueue({ key: LONG, type: 'evil\u001b[2J\u009b31m\u202e' });
  });

  it('fits the width of the terminal, and cuts nothing where there is none', async () => {
    for (const columns of [70, 130]) {
      const terminal = cli.inTerminal(['list', '--key', LONG], { columns });
      expect(await terminal.code).toBe(0);
      expect(widest(terminal.seen)).toBeLessThanOrEqual(columns);
      expect(terminal.seen).toMatch('…');
      expect(terminal.seen).not.toMatch(LONG);
    }
    expect((await cli.run(['list', '--key', LONG])).stdout).toMatch(LONG);
  });

  it('has colors, unless nobody wants them', async () => {
    const colored = cli.inTerminal(['status']);
    expect(await colored.code).toBe(3);
    expect(colored.seen).toMatch(COLOR);
    for (const terminal of [
      cli.inTerminal(['status', '--no-color']),
      cli.inTerminal(['status'], { env: { NO_COLOR: '1' } }),
    ]) {
      expect(await terminal.code).toBe(3);
      expect(terminal.seen).not.toMatch('\u001b');
    }
    expect((await cli.run(['status'])).stdout).not.toMatch('\u001b');
  });

  it('shows no escape that a message holds', async () => {
    for (const args of [['list', '--key', LONG], ['list', '--key', LONG, '--json'], ['dead']]) {
      const { stdout } = await cli.run(args);
      expect(stdout).not.toMatch(/[\u001b\u009b\u202e]/);
    }
    const [found] = (await cli.json(['list', '--key', LONG])).lines;
    expect(found).toMatchObject({ type: 'evil\u001b[2J\u009b31m\u202e' });
  });

  it('asks before it destroys, and takes no answer as no', async () => {
    for (const answer of ['\r', 'n\r', 'yess\r', '\u0004']) {
      const terminal = cli.inTerminal(['discard', '--type', BULK]);
      await terminal.until(/discard 2,300 messages; they are deleted, and never sent\? \[y\/N\] /);
      terminal.type(answer);
      expect({ answer, code: await terminal.code }).toEqual({ answer, code: 130 });
      expect(terminal.seen).toMatch('nestjs-outbox: Nothing was changed.');
    }
    const interrupted = cli.inTerminal(['discard', '--type', BULK]);
    await interrupted.until(/\[y\/N\] /);
    interrupted.type(CTRL_C);
    expect(await interrupted.code).toBe(130);
    expect(await stuck.total()).toMatchObject({ dead: 2_300 });
  });

  it('Ctrl-C in the middle of many: the chunk is finished, what was done is told, and the same command goes on', async () => {
    const other = await new DataSource(stuck.database.options).initialize();
    const runner = other.createQueryRunner();
    const command = ['requeue', '--type', BULK];
    await runner.startTransaction();
    await runner.query('lock table outbox_parked in share mode'); // looks are let through, changes wait
    const terminal = cli.inTerminal(command);
    try {
      await isWaiting(other);
      terminal.type(CTRL_C);
      await terminal.until(/Interrupted: it stops after this chunk\. Press Ctrl-C again to end now\./);
      await runner.commitTransaction();
    } finally {
      await runner.release();
      await other.destroy();
    }
    expect(await terminal.code).toBe(130);
    expect(terminal.seen).toMatch('Interrupted. What was done stays done. Run the same command to continue.');
    expect(terminal.seen).toMatch('Requeued 1,000 messages.');
    expect(await stuck.total()).toMatchObject({ dead: 1_300, waiting: 1_000 });

    const again = cli.inTerminal(command);
    expect(await again.code).toBe(0);
    expect(again.seen).toMatch('\r\u001b[KRequeued 1,000 of 1,300'); // the line of the progress
    expect(again.seen).toMatch('Requeued 1,300 messages.');
    expect(await stuck.total()).toMatchObject({ dead: 0, waiting: 2_300 });
    const rest = await cli.run(['cancel', '--type', BULK, '--yes']);
    expect(rest).toEqual({ code: 0, stdout: 'Cancelled 2,300 messages.\n', stderr: '' });
  });

  it('Ctrl-C in the middle of a replay: it says how to go on, and there each message comes once, also behind a process that ended at once', async () => {
    const COUNT = 40; // so many seconds that the keys are typed in the middle of it
    await stuck.during(
      async (outbox, transport) => {
        transport.refuses = false;
        const all = Array.from({ length: COUNT }, () => ({ type: 'again', topic: 'a', key: 'k', payload: {} }));
        await outbox.enqueueOutsideTransaction(all, {});
        while ((await cli.json(['list', '--state', 'published'])).lines.length < all.length);
      },
      { onPublished: 'archive' },
    );
    const terminal = cli.inTerminal(['replay', '--from', '1h', '--type', 'again', '--per-second', '1']);
    await terminal.until(/publish 40 messages again, to all consumers of their destinations\? \[y\/N\] /);
    terminal.type('y\r');
    await terminal.until(/Replayed 2 of 40/);
    terminal.type(CTRL_C);
    expect(await terminal.code).toBe(130);
    const [, resume] = /replay --resume (\d+)/.exec(terminal.seen) as unknown as [string, string];
    const killed = cli.inTerminal(['replay', '--resume', resume, '--per-second', '1', '--yes']);
    await killed.until(/Replayed 1/);
    killed.type(CTRL_C);
    await killed.until(/Press Ctrl-C again/);
    killed.type(CTRL_C);
    expect(await killed.code).toBe(130);
    const again = await cli.json(['replay', '--resume', resume, '--per-second', 'all', '--yes']);
    expect(again).toMatchObject({ code: 0, lines: [{ auditId: resume, interrupted: false }] });
    const { lines: ready } = await cli.json(['list', '--state', 'ready', '--type', 'again']);
    expect(ready).toHaveLength(COUNT);
    expect(new Set(ready.map(({ id }) => id)).size).toBe(COUNT);
    expect((await cli.json(['audit', '--limit', '1'])).lines).toMatchObject([
      { id: resume, done: COUNT, outcome: 'done' },
    ]);
  });

  it('watches on past a look that fails, and says so', async () => {
    const db = await new DataSource(stuck.database.options).initialize();
    const terminal = cli.inTerminal(['status', '--watch', '--every', '100ms']);
    await terminal.until(/status: /);
    await db.query('alter table outbox_ready rename to outbox_ready_away');
    try {
      await terminal.until(/Z This look failed: [^]*outbox_ready[^]*\r\n[^]*This look failed: /);
    } finally {
      await db.query('alter table outbox_ready_away rename to outbox_ready');
      await db.destroy();
    }
    const before = terminal.seen.length;
    await terminal.until(new RegExp(`^[^]{${before}}[^]*status: `));
    terminal.type(CTRL_C);
    expect(await terminal.code).toBe(130);
  });

  it('watches the status until Ctrl-C', async () => {
    const terminal = cli.inTerminal(['status', '--watch', '--every', '100ms']);
    await terminal.until(/(\u001b\[2J\u001b\[H[^]*status: [^]*){3}/);
    terminal.type(CTRL_C);
    expect(await terminal.code).toBe(130);
  });
});

/** A change of the command waits for the lock. */
async function isWaiting(other: DataSource): Promise<void> {
  const waiting = `select 1 from pg_locks l join pg_stat_activity a using (pid) where not granted and a.datname = current_database()`;
  await until(async () => ((await other.query(waiting)) as unknown[]).length > 0, 60_000);
}
