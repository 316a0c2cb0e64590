import { Ledger } from '../../../lib/relay/ledger.js';
import { stored } from '../../support/transport-relay.js';

describe('the ledger', () => {
  it('what is out when its lease is lost keeps its key closed, and what waited behind it is forgotten', () => {
    const ledger = new Ledger(({ key }) => key);
    const [out, behind, other] = [stored({ key: 'k' }), stored({ key: 'k' }), stored({ key: 'l', bucket: 1 })];
    for (const message of [out, behind, other]) {
      ledger.known.add(message);
      ledger.accept(message);
    }
    ledger.enter([out, behind, other]);
    ledger.begin({ messages: [ledger.queues.shift() ?? out], units: undefined });
    ledger.lose(new Set([0]));
    expect([out.state, behind.state, other.state]).toEqual(['orphan', 'gone', 'waiting']);
    expect([ledger.held, ledger.isFree('k'), ledger.isFree('l')]).toEqual([2, false, false]);
    expect([out, behind, other].map((message) => ledger.known.isNew(message))).toEqual([false, true, false]);
  });
});
