import { DataSource } from 'typeorm';
import { describeOnEach, describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { Cli, CTRL_C } from './support/cli.js';
import { Stuck, useStuck } from './support/stuck.js';

jest.setTimeout(600_000);

describeOnEach([], 'drain, as a command', (kind) => {
  const { stuck, cli } = useStuck(kind);

  it('says what is left and why when its time is over, and ends with 0 when nothing is', async () => {
    const [dead] = await stuck.dead(1, { key: 'customer-1' });
    const alone = await cli.run(['drain']);
    expect(alone).toEqual({ code: 0, stdout: 'Drained. 1 dead, 0 scheduled for later.\n', stderr: '' });
    const behind = await stuck.enqueue({ key: 'customer-1' });
    const blocked = await cli.run(['drain', '--for', '1s']);
    expect(blocked).toMatchObject({ code: 3, stderr: '' });
    expect(blocked.stdout).toMatch(
      /^Not drained after 1s: 1 message left\.\nTRANSPORT +LEFT READY +LEFT PARKED +DEAD +SCHEDULED\ndefault +1 +0 +1 +0\n/,
    );
    expect(blocked.stdout).toMatch(`default blocked, as ${behind}: It is blocked behind message ${dead} of its key`);
    expect(await cli.json(['drain', '--for', '1s', '--transport', 'default'])).toMatchObject({
      code: 3,
      lines: [
        {
          ...{ action: 'drain', outcome: 'timeout', left: 1, isExact: true },
          transports: [{ transport: 'default', ready: 1, parked: 0, dead: 1, scheduled: 0 }],
          reasons: [{ code: 'blocked', transport: 'default', id: behind }],
        },
      ],
    });
    const done = await stuck.during(async (_, transport) => {
      transport.refuses = false;
      await cli.run(['release', 'customer-1', '--yes']);
      return cli.json(['drain', '--for', '10m']);
    });
    expect(done).toMatchObject({ code: 0, lines: [{ outcome: 'drained', left: 0, reasons: [] }] });
    expect(await cli.run(['drain', '--transport', 'none'])).toMatchObject({ code: 2, stdout: '' });
    const { lines: audit } = await cli.json(['audit']);
    expect(audit.map(({ action }) => action)).toEqual(['release']);
  });
});

describeWith('postgres', 'drain, in a terminal', () => {
  it('shows what is left until Ctrl-C, and a second one ends at once', async () => {
    const stuck = await Stuck.create('postgres');
    const cli = await Cli.create(stuck.env);
    try {
      await stuck.enqueue();
      const terminal = cli.inTerminal(['drain']);
      await terminal.until(/\r\u001b\[KLeft 1 \(0 %\)/);
      terminal.type(CTRL_C);
      expect(await terminal.code).toBe(130);
      expect(terminal.seen).toMatch('Interrupted: 1 message left.');
      const killed = cli.inTerminal(['drain']);
      await killed.until(/Left 1/);
      killed.type(CTRL_C + CTRL_C);
      expect(await killed.code).toBe(130);
      const db = await new DataSource(stuck.database.options).initialize();
      const holder = db.createQueryRunner();
      try {
        const held = cli.inTerminal(['drain']);
        await held.until(/Left 1/);
        await holder.startTransaction();
        await holder.query('lock table outbox_parked in access exclusive mode');
        const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
        await until(async () => (await holder.query(waiting)).length > 0);
        held.type(CTRL_C);
        expect(await held.code).toBe(130);
        expect(held.seen).toMatch('Interrupted: 1+ messages left.');
        expect(held.seen).toMatch('The database did not answer in time: the rest is not known.');
      } finally {
        await holder.release();
        await db.destroy();
      }
      expect(await stuck.total()).toMatchObject({ ready: 1 });
      expect((await cli.json(['audit'])).lines).toEqual([]);
    } finally {
      await cli.remove();
      await stuck.remove();
    }
  });
});
