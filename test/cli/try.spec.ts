import { Cli } from './support/cli.js';
import { Stuck } from './support/stuck.js';
it.each((process.env['KINDS'] ?? 'postgres').split(',') as any[])('x %s', async (kind) => {
  const stuck = await Stuck.create(kind);
  const cli = await Cli.create(stuck.env);
  try {
    const ids = await stuck.dead(3, { key: null, type: 'evil\u001b[31m', topic: '日本' });
    const [held] = await stuck.dead(1, { key: 'customer-4711' });
    const behind = await stuck.enqueue({ key: 'customer-4711', headers: { token: 'secret' } });
    const show = async (...args: string[]) => {
      const { code, stdout, stderr } = await cli.run(args);
      console.log(`$ ${args.join(' ')} → ${code}\n${stdout}\n--stderr--\n${stderr}`);
    };
    await show('status');
    await show('status', '--json');
    await show('list');
    await show('list', '--json', '--limit', '1');
    await show('list', '--state', 'published');
    await show('list', '--state', 'dad');
    await show('show', held!);
    await show('show', behind, '--payload');
    await show('explain', behind);
    await show('explain', held!, '--json');
    await show('dead');
    await show('buckets', '--json');
    await show('requeue');
    await show('requeue', ids[0]!, '--dry-run');
    await show('requeue', ids[0]!);
    await show('discard', '--state', 'dead');
    await show('discard', '--state', 'dead', '--type', 'order.placed', '--dry-run');
    await show('discard', '--state', 'dead', '--type', 'order.placed', '--yes');
    await show('cancel', '--state', 'ready', '--yes', '--json');
    await show('release', 'nobody', '--yes');
    await show('clean', '--older-than', '30d', '--yes');
    await show('break-leases', '--owner', 'x', '--yes');
    await show('list', '--transport', 'nowhere');
    await show('show', 'x');
    const t = cli.inTerminal(['list'], { columns: 70 });
    console.log(await t.code, JSON.stringify(t.seen));
  } finally {
    await cli.remove();
    await stuck.remove();
  }
});
