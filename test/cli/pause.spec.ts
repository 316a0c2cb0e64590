import { describeOnEach } from '../support/services.js';
import { useStuck } from './support/stuck.js';

/** Each call is a process that loads Nest and TypeORM. */
jest.setTimeout(600_000);

describeOnEach([], 'pause, resume and pauses of the command line', (kind) => {
  const { stuck, cli } = useStuck(kind);
  beforeAll(() => stuck.enqueue());

  it('pause a transport once, say who and why, and end it', async () => {
    const pause = ['pause', 'default', '--reason', 'wrong prices \u001b[31m'];
    expect(await cli.run(['pause', 'default', '--yes'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching('--reason'),
    });
    expect(await cli.run(pause)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching('--yes, or --dry-run'),
    });
    expect(await cli.run([...pause, '--dry-run'])).toMatchObject({
      code: 0,
      stdout: "pause would change transport 'default'.\n",
    });
    expect(await cli.run(['pauses'])).toMatchObject({ code: 3 });
    expect(await cli.run(['pause', 'defualt', '--reason', 'x', '--yes'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/pause: there is no transport 'defualt'\. Did you mean 'default'\?/),
    });
    expect(await cli.json([...pause, '--yes'])).toMatchObject({
      code: 0,
      lines: [{ action: 'pause', transport: 'default', changed: true }],
    });
    expect(await cli.run([...pause, '--yes'])).toMatchObject({
      code: 3,
      stdout: expect.stringMatching(/^Transport 'default' is paused already, by .*: wrong prices \\u001b\[31m\n$/),
    });
    expect((await cli.run(['pauses'])).stdout).toMatch(
      /^TRANSPORT +TOPIC +KEY +SINCE +BY +REASON\ndefault +all +all .*wrong prices \\u001b\[31m\n$/,
    );
    expect((await cli.json(['pauses'])).lines).toMatchObject([
      { transport: 'default', reason: 'wrong prices \\u001b[31m' },
    ]);
    const part = ['default', '--topic', 'prices', '--key', 'k 7'];
    expect((await cli.run(['pause', ...part, '--reason', 'x', '--yes'])).stdout).toBe(
      "Key 'k 7' of topic 'prices' of transport 'default' is paused.\n",
    );
    expect((await cli.run(['pauses'])).stdout).toMatch(/^default +prices +k 7 +/m);
    expect(await cli.json(['resume', ...part, '--yes'])).toMatchObject({
      code: 0,
      lines: [{ action: 'resume', transport: 'default', topic: 'prices', key: 'k 7', changed: true }],
    });
    const [first] = (await cli.json(['list', '--limit', '1'])).lines as { id: string }[];
    expect((await cli.run(['explain', first?.id ?? ''])).stdout).toMatch(
      /^paused: Transport 'default' is paused since \S+ by .*: wrong prices \\u001b\[31m\.\n/m,
    );
    const [report] = (await cli.json(['doctor'])).lines as { findings: { summary?: string; fix?: string }[] }[];
    expect(JSON.stringify(report)).toMatch(/is paused since/);
    expect((await cli.run(['doctor'])).stdout).toMatch('npx nestjs-outbox resume default');
    expect(await cli.json(['resume', 'default', '--dry-run'])).toMatchObject({
      code: 0,
      lines: [{ action: 'resume', dryRun: true, changed: true, pause: { transport: 'default' } }],
    });
    expect(await cli.run(['resume', 'default', '--yes'])).toMatchObject({
      code: 0,
      stdout: "Transport 'default' is resumed.\n",
    });
    expect(await cli.run(['resume', 'default', '--yes'])).toMatchObject({
      code: 3,
      stdout: "Transport 'default' is not paused.\n",
    });
    expect((await cli.json(['audit'])).lines).toMatchObject([
      { action: 'resume', done: 0 },
      { action: 'resume', done: 1 },
      { action: 'resume', done: 1, filter: '{"transport":"default","topic":"prices","key":"k 7"}' },
      { action: 'pause', done: 1 },
      { action: 'pause', done: 0 },
      { action: 'pause', done: 1, filter: '{"transport":"default","reason":"wrong prices \\\\u001b[31m"}' },
    ]);
  });
});
