import { boundaryOf, savepointOf, tellsOfNoTransaction } from '../../../lib/transaction/sql-boundary.js';
import { TransactionState } from '../../../lib/transaction/state.js';

describe('what statements tell of a transaction', () => {
  it.each<[ReturnType<typeof boundaryOf>, readonly unknown[]]>([
    ['begin', ['START TRANSACTION', 'BEGIN', '  begin isolation level serializable', 'start\n transaction']],
    ['commit', ['COMMIT', 'END', 'COMMIT AND CHAIN', '-- a\n-- b\r\ncommit', '; commit', '# a\nend', 'commit; begin']],
    ['rollback', ['ROLLBACK', 'rollback;', 'abort work', '/* a */rollback']],
    ['prepare', ["prepare transaction 'a'"]],
    ['begin', ['/* audit */ begin', ';\n--\nstart transaction']],
    ['commit', ['/* a /* nested */ comment */ commit', `/*${' '.repeat(1_000_000)}*/ commit`]],
    ['back', ['/* a */ rollback to savepoint s', 'rollback to s; select 1']],
    [
      'unsure',
      ['select 1; rollback', "select ';' /* ; */;;; -- a\n commit", 'begin; select 1; commit', 'a;'.repeat(200)],
    ],
    [
      'unsure',
      ['rollback to s; rollback', 'analyze table a', '/* a */ check table a', 'optimize table a', 'repair table a'],
    ],
    [
      undefined,
      ['-- rollback', '/* rollback', '/* rollback */', 'select 1; select 2;', "prepare a as select '1'", ';', '#'],
    ],
    ['back', ['ROLLBACK TO SAVEPOINT typeorm_1', 'rollback work to s', 'rollback transaction to savepoint s']],
    ['save', ['SAVEPOINT typeorm_1', '/* a */ savepoint b']],
    ['release', ['RELEASE SAVEPOINT typeorm_1', 'release a']],
    [undefined, ['select 1', 'commitment', 'savepoints', 'released', '', undefined, {}]],
  ])('%s', (boundary, texts) => {
    for (const text of texts) expect([text, boundaryOf(text)]).toEqual([text, boundary]);
  });

  it('a text with parameters is one statement', () => {
    expect(boundaryOf("select $1, '; rollback'", ['a'])).toBeUndefined();
    expect(boundaryOf("select '; rollback'", [])).toBe('unsure');
    expect(boundaryOf('/* a */ commit', ['a'])).toBe('commit');
  });

  it.each([
    [
      'a',
      ['savepoint a', 'SAVEPOINT A;', '/* b */ release a', 'release savepoint "a"', 'rollback to a', 'abort work to a'],
    ],
    ['typeorm_1', ['SAVEPOINT typeorm_1', 'RELEASE SAVEPOINT typeorm_1', 'ROLLBACK TO SAVEPOINT typeorm_1']],
    ['of two words', ['savepoint `of two words`', 'rollback transaction to savepoint "of two words"']],
    ['', ['savepoint /* a */ b', 'savepoint']],
  ])('the savepoint %j', (name, texts) => {
    for (const text of texts) expect([text, savepointOf(text)]).toEqual([text, name]);
  });

  it('answers of MySQL and MariaDB tell when no transaction is open behind a statement; rows tell nothing', () => {
    const [open, none] = [{ serverStatus: 3 }, { serverStatus: 2 }];
    const rows = [{ id: 1 }, none];
    for (const answer of [none, { raw: none }, [none, rows], [rows, open, none], [[], none]])
      expect([answer, tellsOfNoTransaction(answer)]).toEqual([answer, true]);
    for (const answer of [open, { raw: open }, [rows, open], rows, [], { raw: rows }, undefined, null, 'text', {}])
      expect([answer, tellsOfNoTransaction(answer)]).toEqual([answer, false]);
  });

  it('it stays ended whatever became of its end, until another one begins', async () => {
    const state = new TransactionState();
    await expect(state.send('commit', () => Promise.reject(new Error('lost')))).rejects.toThrow('lost');
    expect(state.isOpen).toBe(false);
    await state.send('begin', () => Promise.resolve());
    expect([state.isOpen, state.doubtful]).toEqual([true, false]);
  });

  it('a SAVEPOINT that fails is its sender’s failure, not that of a write which waits for it', async () => {
    const state = new TransactionState();
    const failing = state.send('save', () => Promise.reject(new Error('no')));
    await expect(Promise.all([state.saved(), failing.catch(() => undefined)])).resolves.toBeDefined();
    expect(state.saving).toBeUndefined();
  });

  it('nobody asks the database while nothing failed; after a failure the next one does, once', async () => {
    const state = new TransactionState();
    const probe = jest.fn(() => Promise.resolve());
    await state.send(undefined, () => Promise.resolve());
    await state.settle(probe);
    expect(probe).not.toHaveBeenCalled();
    const failing = state.send(undefined, () => Promise.reject(new Error('no')));
    failing.catch(() => undefined);
    await state.settle(probe); // waits for it
    await state.settle(probe);
    expect(probe).toHaveBeenCalledTimes(1);
  });
});
