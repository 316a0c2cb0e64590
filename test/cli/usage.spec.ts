// @tier gate
import { createServer, type AddressInfo, type Server } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { Cli } from './support/cli.js';

jest.setTimeout(600_000);

const SECRET = 'hunter2-canary';

describe('the command line without a database', () => {
  let cli: Cli;
  let silent: Server;
  beforeAll(async () => {
    cli = await Cli.create();
    silent = createServer(() => {}).listen(0, '127.0.0.1');
  });
  afterAll(async () => {
    silent.close();
    await cli.remove();
  });

  it.each([
    [[], 'Give a command: nestjs-outbox --help lists them.'],
    [['lst'], "unknown command 'lst' (Did you mean list?)"],
    [['list', '--jsn'], "unknown option '--jsn' (Did you mean --json?)"],
    [['show'], "missing required argument 'id'"],
    [['show', 'a', 'b'], "too many arguments for 'show'"],
    [['list', '--state', 'dad'], "option '--state <state>' argument 'dad' is invalid."],
    [['list', '--limit', '0'], 'It must be a whole number from 1.'],
    [['list', '--timeout', 'soon'], "It must be a duration such as '30s' or '5m'."],
    [['list', '--timeout', '30d'], 'It must be 1ms at least and 1d at most.'],
    [['list', '--timeout', '0s'], 'It must be 1ms at least and 1d at most.'],
    [['status', '--watch', '--every', '25d'], 'It must be 1ms at least and 1d at most.'],
    [['list', '--url', 'ftp://host/d'], 'The database URL must begin with postgres://, mysql:// or mariadb://.'],
    [['list', '--url', 'postgres://host/d', '--prefix', 'Out"box'], 'The prefix must have lower-case letters'],
    [['list', '--config', 'none.json'], 'none.json is not there.'],
    [['list', '--module', 'none.js'], 'none.js is not there. Build the application first.'],
    [['list'], 'No database is named. Set OUTBOX_DATABASE_URL'],
    [['requeue', '--url', 'postgres://host/d'], 'requeue takes no messages by default.'],
    [['requeue', 'a', '--limit', '2', '--url', 'postgres://host/d'], '--limit goes with a filter, not with ids.'],
    [['discard', '--state', 'dead', '--url', 'postgres://host/d'], 'give --yes, or --dry-run.'],
    [['clean', '--yes', '--url', 'postgres://host/d'], 'Give --older-than, such as --older-than 30d.'],
    [['break-leases', '--yes', '--url', 'postgres://host/d'], 'Give one of --owner, --bucket, --transport.'],
    [
      ['replay', '--type', 'a', '--yes', '--url', 'postgres://host/d'],
      'Give --from, or ids: nothing replays a whole archive',
    ],
    [
      ['replay', '--from', '2026-11-26 08:00', '--url', 'postgres://host/d'],
      "It must be a time such as '2026-11-26T08:00:00Z'",
    ],
    [
      ['replay', '--from', '2h', '--per-second', '0', '--url', 'postgres://host/d'],
      'It must be a whole number from 1.',
    ],
    [['replay', '--from', '2h', '--url', 'postgres://host/d'], 'give --yes, or --dry-run.'],
    [['completion', 'csh'], 'Allowed choices are bash, zsh, fish.'],
    [['list', '--url', 'a\u001b[31m'], 'The database URL must begin'],
  ])('%j is wrong usage: one line, exit code 2', async (args, text) => {
    const { code, stdout, stderr } = await cli.run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^nestjs-outbox: [^\n\u001b]+\n$/);
    expect(stderr).toContain(text);
  });

  it('takes no password in an argument, and repeats none', async () => {
    for (const arg of [
      `--url=postgres://shop:${SECRET}@db/shop`,
      `mysql://shop:${SECRET}@db/shop`,
      `--url=postgres://db/shop?user=shop&password=${SECRET}`,
    ]) {
      const { code, stdout, stderr } = await cli.run(['list', arg]);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toMatch(/^nestjs-outbox: Argument 2 is a URL with a password, .* Put it into OUTBOX_DATABASE_URL/);
      expect(stderr).not.toMatch(SECRET);
    }
  });

  it('repeats no secret of a config file that is wrong', async () => {
    const file = join(cli.folder, 'wrong.json');
    for (const content of [
      `{ "url": "postgres://shop:${SECRET}@db/shop", }`,
      JSON.stringify({ url: `nosql://shop:${SECRET}@db/shop` }),
      JSON.stringify({ url: { password: SECRET } }),
      JSON.stringify({ urll: `postgres://shop:${SECRET}@db/shop` }),
    ]) {
      await writeFile(file, content);
      const { code, stderr } = await cli.run(['list', '--config', 'wrong.json']);
      expect({ content, code }).toEqual({ content, code: 2 });
      expect(stderr).not.toMatch(SECRET);
    }
  });

  it('waits for a silent database until its timeout, and no longer', async () => {
    const { port } = silent.address() as AddressInfo;
    // Without an option it would wait for an hour.
    await writeFile(join(cli.folder, 'patient.json'), JSON.stringify({ timeout: '1h' }));
    const { code, stderr } = await cli.run(['list', '--config', 'patient.json', '--timeout', '500ms'], {
      OUTBOX_DATABASE_URL: `postgres://shop:${SECRET}@127.0.0.1:${port}/shop`,
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^nestjs-outbox: [^\n]+\n$/);
    expect(stderr).not.toMatch(SECRET);
  });

  it.each([
    [0, '| true', 'a reader that has seen enough is no failure'],
    [1, '> /dev/full', 'a file that takes no more is one'],
  ])('ends with %d behind %s: %s', async (code, where) => {
    const script = `"$0" "$1" completion bash ${where}; echo "code \${PIPESTATUS[0]}"`;
    const ended = spawnSync('bash', ['-c', script, process.execPath, cli.bin], { encoding: 'utf8' });
    expect(ended.stdout).toBe(`code ${code}\n`);
    expect(ended.stderr).toBe(code === 0 ? '' : 'nestjs-outbox: The result could not be written: ENOSPC.\n');
  });

  it('goes on where nobody reads its words', () => {
    const script = `"$0" "$1" lst 2>&1 >/dev/null | true; echo "code \${PIPESTATUS[0]}"`;
    const ended = spawnSync('bash', ['-c', script, process.execPath, cli.bin], { encoding: 'utf8' });
    expect(ended.stdout).toBe('code 2\n');
  });

  it('the doctor says of a silent database that it does not answer', async () => {
    const { port } = silent.address() as AddressInfo;
    for (const scheme of ['postgres', 'mysql']) {
      const { code, lines } = await cli.json([
        'doctor',
        '--timeout',
        '1s',
        '--url',
        `${scheme}://shop@127.0.0.1:${port}/shop`,
      ]);
      expect({ scheme, code }).toEqual({ scheme, code: 3 });
      expect(lines).toMatchObject([{ severity: 'error', findings: [{ code: 'database', severity: 'error' }] }]);
    }
  });

  it('says which commands there are, and its version', async () => {
    const help = await cli.run(['--help']);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toMatch(/^ {2}requeue \[options\] \[ids\.\.\.\]/m);
    expect((await cli.run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it('prints scripts that shells read, and complete by', async () => {
    const { stdout } = await cli.run(['completion', 'bash']);
    const complete = (...words: string[]): string[] => {
      const script = `${stdout}\nCOMP_WORDS=(nestjs-outbox ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _nestjs_outbox; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout: completed, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
      expect(stderr).toBe('');
      return completed.trim().split('\n');
    };
    expect(complete('re')).toEqual(['requeue', 'release', 'resume', 'replay']);
    expect(complete('list', '--old')).toEqual(['--older-than']);
    expect(complete('list', '--state', 'd')).toEqual(['dead']);
    expect(complete('completion', '')).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']));
    for (const shell of ['zsh', 'fish']) {
      const { stdout: script } = await cli.run(['completion', shell]);
      expect(script).toMatch('requeue');
      const file = join(cli.folder, `completion.${shell}`);
      await writeFile(file, script);
      // Where the shell is installed, it reads its script.
      const { error, status, signal, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' });
      if (error === undefined)
        expect({ shell, status, signal, stderr }).toEqual({ shell, status: 0, signal: null, stderr: '' });
    }
  });
});
