import { describeWith } from '../support/services.js';
import { configFor } from '../support/sqs.js';
import { describeSqsContract } from '../support/sqs-contract.js';

/** What the order of a group hangs on; transport-sqs-fifo.spec.ts has the rest. */
const OF_A_GROUP: ReadonlySet<string> = new Set([
  'sends the messages of one key in order',
  'blames a refused message, and never its neighbours',
  'is dead once it is rejected: nothing of a timed-out batch is sent later',
]);

describeWith('sqs', 'sqs() keeps the transport contract', () => {
  describeSqsContract('sqs, a standard queue', '', (url) => configFor(url));
  const left = new Set(OF_A_GROUP);
  describeSqsContract('sqs, the order of a group of a FIFO queue', '.fifo', (url) => configFor(url), {
    ...{ describe, beforeAll, afterAll },
    it: (name, body) => left.delete(name) && it(name, body),
  });
  if (left.size > 0) throw new Error(`The contract has no such case: ${[...left].join('; ')}`);
});
