import { boundaryOf, TransactionState } from '../../lib/enqueue/transaction-state.js';

describe('what statements tell of a transaction', () => {
  it.each<[ReturnType<typeof boundaryOf>, readonly unknown[]]>([
    ['begin', ['START TRANSACTION', 'BEGIN', '  begin isolation level serializable', 'start\n transaction']],
    ['end', ['COMMIT', 'ROLLBACK', 'rollback;', 'END', 'abort work', 'COMMIT AND CHAIN']],
    ['back', ['ROLLBACK TO SAVEPOINT typeorm_1', 'rollback work to s', 'rollback transaction to savepoint s']],
    [undefined, ['SAVEPOINT typeorm_1', 'RELEASE SAVEPOINT typeorm_1', 'select 1', 'commitment', '', undefined, {}]],
  ])('%s', (boundary, texts) => {
    for (const text of texts) expect([text, boundaryOf(text)]).toEqual([text, boundary]);
  });

  it('it stays ended whatever became of its end, until another one begins', async () => {
    const state = new TransactionState();
    await expect(state.send('end', () => Promise.reject(new Error('lost')))).rejects.toThrow('lost');
    expect(state.isOpen).toBe(false);
    await state.send('begin', () => Promise.resolve());
    expect([state.isOpen, state.doubtful]).toEqual([true, false]);
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
