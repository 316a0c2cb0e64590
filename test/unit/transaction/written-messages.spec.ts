import type { TransactionListener } from '../../../lib/transaction/after-commit.js';
import { WrittenMessages } from '../../../lib/transaction/written-messages.js';

const writer = (): TransactionListener => ({ committed: () => undefined, rolledBack: () => undefined });

describe('what must not be committed', () => {
  const [early, late] = [writer(), writer()];
  let written: WrittenMessages;
  const save = (name: string, listener: TransactionListener): void => {
    written.saved(name);
    written.entries.push({ listener, ids: ['a'] });
  };

  beforeEach(() => {
    written = new WrittenMessages();
    save('first', early);
    save('second', late);
  });

  it('is gone with the savepoint before what was written for its writer, and with no later one', () => {
    written.spoil(new Error('no'), early);
    written.wentBack('second');
    expect(written.spoilt).toBeDefined();
    written.wentBack('first');
    expect(written.spoilt).toBeUndefined();
  });

  it('is the earliest of several', () => {
    const [ofLate, ofEarly] = [new Error('late'), new Error('early')];
    written.spoil(ofLate, late);
    written.spoil(ofEarly, early);
    written.spoil(new Error('now'));
    expect(written.spoilt?.cause).toBe(ofEarly);
    written.wentBack('second');
    expect(written.spoilt?.cause).toBe(ofEarly);
  });

  it('is what is written now, where nothing was written for anybody', () => {
    written.spoil(new Error('no'));
    written.wentBack('second');
    expect(written.spoilt).toBeUndefined();
    expect(written.entries).toHaveLength(1);
  });
});
