import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CLEAN, commit, fault, judge, META, SECOND, sight, uid } from './planted.js';

const DEAD = 4;

describe('the checker of the chaos runs', () => {
  it('finds nothing in a clean history', () => {
    const { committed, published, broken } = judge(...CLEAN);
    expect({ committed, published, broken }).toEqual({ committed: 2, published: 2, broken: [] });
  });

  it('lost: committed, never seen, in no table', () => {
    expect(judge(...commit(1, 0), ...commit(2, SECOND), sight(2 * SECOND, 1, uid(1, 2)))).toMatchObject({
      lost: 1,
      broken: ['lost'],
    });
  });

  it.each(['ready', 'parked'])('stuck: still in the table %s at the end', (table) => {
    expect(judge(...commit(1, 0), ['left', table, 2, 0, uid(1, 1)])).toMatchObject({ stuck: 1, broken: ['stuck'] });
  });

  it('ghosts: seen, and its transaction did not commit, or not for this transport', () => {
    expect(judge(...CLEAN, sight(2 * SECOND, 1, uid(1, 3)))).toMatchObject({ ghosts: 1, broken: ['ghosts'] });
    expect(judge(...CLEAN, ['s', 1, 2 * SECOND, 1, 0, [uid(1, 1)]])).toMatchObject({ ghosts: 1 });
  });

  it('effects: with the inbox, one of each delivery', () => {
    const withInbox = ['meta', { ...(META[1] as object), inbox: true }];
    expect(judge(...CLEAN, withInbox, ['f', 0, [uid(1, 1), uid(1, 2)]]).broken).toEqual([]);
    expect(judge(...CLEAN, withInbox, ['f', 0, [uid(1, 1), uid(1, 1)]])).toMatchObject({ effectsNotOnce: 2 });
  });

  it('order: the commit returned before the other transaction began, and it was seen after it', () => {
    const seen = sight(3 * SECOND, 1, uid(1, 2), uid(1, 1));
    expect(judge(...commit(1, 0), ...commit(2, SECOND), seen)).toMatchObject({
      orderBreaks: 1,
      broken: ['orderBreaks'],
    });
  });

  it('order: no promise for overlapping transactions, other keys, scheduled messages, and commits that nobody saw return', () => {
    const seen = sight(3 * SECOND, 1, uid(1, 2), uid(1, 1));
    expect(judge(...commit(1, 0), ...commit(2, SECOND / 20), seen)).toMatchObject({ orderBreaks: 0 });
    expect(judge(...commit(1, 0), ...commit(2, SECOND, [[8, 1, 0]]), seen)).toMatchObject({ orderBreaks: 0 });
    expect(judge(...commit(1, 0, [[7, 1, 1]]), ...commit(2, SECOND), seen)).toMatchObject({ orderBreaks: 0 });
    expect(judge(['c', 1, 1, 0, [[7, 1, 0]]], ...commit(2, SECOND), seen)).toMatchObject({ orderBreaks: 0 });
  });

  it('duplicates: without a fault at the relay that published it first', () => {
    const elsewhere = fault('relay-kill', [2], 2 * SECOND, 3 * SECOND);
    const again = sight(12 * SECOND, 3, uid(1, 1));
    expect(judge(...CLEAN, again)).toMatchObject({ duplicates: 1, unexplainedDuplicates: 1 });
    expect(judge(...elsewhere, ...CLEAN, again)).toMatchObject({ unexplainedDuplicates: 1 });
  });

  it('duplicates: explained by a fault at that relay, and stale when something newer of the key had been seen', () => {
    const here = fault('relay-kill', [1], 2.5 * SECOND, 3 * SECOND);
    expect(judge(...here, ...CLEAN, sight(12 * SECOND, 3, uid(1, 1)))).toMatchObject({
      duplicates: 1,
      staleDuplicates: 1,
      broken: [],
    });
  });

  it('duplicates: explained for as long as the relay had not written the receipt, and no longer than it may take', () => {
    const killedAt = (time: number, receipt: unknown[]) =>
      judge(...fault('relay-kill', [1], time, time + SECOND), receipt, ...CLEAN, sight(32 * SECOND, 3, uid(1, 1)));
    const late = ['r', 1, 0, 2.5 * SECOND, 1.5 * SECOND];
    expect(killedAt(10 * SECOND, late)).toMatchObject({ duplicates: 1, broken: [] });
    expect(killedAt(20 * SECOND, late)).toMatchObject({ unexplainedDuplicates: 1 });
    expect(killedAt(10 * SECOND, ['r', 1, 0, 6 * SECOND, 3 * SECOND])).toMatchObject({ unexplainedDuplicates: 1 });
  });

  it('duplicates: never of what was published in a calm', () => {
    const copy = sight(12 * SECOND, 3, uid(1, 1));
    expect(judge(['calm', 0, 20 * SECOND], ...CLEAN, copy)).toMatchObject({ calmDuplicates: 1 });
    // It was published before the calm, or its receipt was due after it.
    expect(judge(['calm', 10 * SECOND, 20 * SECOND], ...CLEAN, copy)).toMatchObject({ calmDuplicates: 0 });
    expect(judge(['calm', 0, 3 * SECOND], ...CLEAN, copy)).toMatchObject({ calmDuplicates: 0 });
  });

  it('business: an error while nothing was wrong', () => {
    const error = ['b', 1, 15 * SECOND, 'Error: no'];
    expect(judge(...CLEAN, error)).toMatchObject({ businessErrors: 0, broken: [] });
    expect(judge(['calm', 10 * SECOND, 20 * SECOND], ...CLEAN, error)).toMatchObject({ businessErrors: 1 });
  });

  it.each([
    'QueryFailedError: Deadlock found when trying to get lock; try restarting transaction',
    'QueryFailedError: Lock wait timeout exceeded; try restarting transaction',
    'QueryFailedError: deadlock detected',
    'QueryFailedError: could not serialize access due to concurrent update',
    'QueryFailedError: canceling statement due to lock timeout',
  ])('business: over a lock, whatever else was wrong: %s', (error) => {
    expect(judge(...CLEAN, ['b', 1, 15 * SECOND, error])).toMatchObject({ businessErrors: 1 });
  });

  it("duplicates: what the broker delivers again is not the relay's", () => {
    const again = ['s', 0, 12 * SECOND, 1, 1, [uid(1, 1)]];
    expect(judge(...CLEAN, again)).toMatchObject({ duplicates: 0, redelivered: 1, published: 2, broken: [] });
  });

  it('dead letters: the poison, exactly, and told of', () => {
    const poison = commit(3, 2 * SECOND, [[7, 1, 2]]);
    const dead = ['left', 'parked', DEAD, 0, uid(1, 3)];
    const told = ['d', 1, 3 * SECOND, 0, uid(1, 3), 'no'];
    expect(judge(...CLEAN, ...poison, dead, told)).toMatchObject({ deadLetters: 1, broken: [] });
    expect(judge(...CLEAN, ...poison, dead)).toMatchObject({ untoldDeadLetters: 1 });
    expect(judge(...CLEAN, ...poison)).toMatchObject({ lost: 1 });
    expect(judge(...commit(1, 0), ['left', 'parked', DEAD, 0, uid(1, 1)])).toMatchObject({ wrongDeadLetters: 1 });
    expect(judge(...CLEAN, ...poison, dead, told, sight(9 * SECOND, 1, uid(1, 3)))).toMatchObject({ ghosts: 1 });
  });

  it('leases: no publish begins when the bucket is somebody else’s, or nobody’s', () => {
    const owners = [
      ['o', 1, 'one'],
      ['o', 2, 'two'],
      ['l', SECOND, 0, 5, 'one', 1],
      ['l', 9 * SECOND, 0, 5, null, 1],
      ['l', 11 * SECOND, 0, 5, 'two', 2],
    ];
    const publish = (run: number, time: number): unknown[] => ['p', run, 0, [5, time]];
    const ours = [publish(1, 2 * SECOND), publish(2, 12 * SECOND)];
    expect(judge(...owners, ...CLEAN, ...ours)).toMatchObject({ publishAfterLease: 0, broken: [] });
    expect(judge(...owners, ...CLEAN, publish(1, 10 * SECOND))).toMatchObject({ publishAfterLease: 1 });
    expect(judge(...owners, ...CLEAN, publish(1, 12 * SECOND))).toMatchObject({ publishAfterLease: 1 });
  });

  it('a history without commits proves nothing, and one with unknown lines neither', () => {
    expect(judge()).toMatchObject({ broken: ['empty'] });
    expect(() => judge(['?'])).toThrow('nobody knows');
  });

  it('as a program: the verdict is the last line, with what tells this history from any other', () => {
    const folder = mkdtempSync(join(tmpdir(), 'outbox-check-'));
    const file = join(folder, 'history.jsonl');
    const run = (text: string) => {
      writeFileSync(file, text);
      const args = ['--import', './tools/typescript.mjs', 'test/chaos/check.ts', file];
      const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
      return { status, verdict: JSON.parse(stdout.trimEnd().split('\n').at(-1) as string) as Record<string, unknown> };
    };
    try {
      const text = [META, ...CLEAN].map((line) => `${JSON.stringify(line)}\n`).join('');
      const sha256 = createHash('sha256').update(text).digest('hex');
      const lines = CLEAN.length + 1;
      expect(run(text)).toMatchObject({ status: 0, verdict: { broken: [], history: { sha256, lines } } });
      const lost = run(`${text}${JSON.stringify(commit(3, 5 * SECOND)[0])}\n`);
      expect(lost).toMatchObject({ status: 1, verdict: { broken: ['lost'], history: { lines: lines + 1 } } });
      expect(lost.verdict['history']).not.toMatchObject({ sha256 });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
