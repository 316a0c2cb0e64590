import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { refusal } from '../../support/enqueue.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'The arguments of outbox.transaction', () => {
  const db = useEnqueueDatabase('postgres', 1);
  let outbox: OutboxService;
  let runs = 0;
  const work = async (): Promise<void> => void runs++;

  beforeAll(() => void (outbox = db.outbox()));

  it.each<[string, unknown, unknown, RegExp]>([
    ['a name that it does not know', work, { nestd: true }, /unknown option 'nestd'.*Did you mean 'nested'\?/s],
    ['a name that nobody could mean', work, { readOnly: true }, /unknown option.*Known are: nested, isolation/s],
    ['a level in place of options', work, 'SERIALIZABLE', /options must be an object, not a string/],
    ['null for options', work, null, /options must be an object, not null/],
    ['a list of options', work, [], /options must be an object, not an array/],
    ['an isolation that nobody has', work, { isolation: 'SERIALISABLE' }, /unknown isolation.*mean 'SERIALIZABLE'\?/s],
    ['an isolation that is no text', work, { isolation: 4 }, /unknown isolation.*Known are: READ UNCOMMITTED, /s],
    ['another nested than true and false', work, { nested: 'yes' }, /nested must be a boolean, not a string/],
    ['work that is no function', Promise.resolve(), {}, /work must be a function, not a Promise/],
    ['no work', undefined, undefined, /work must be a function, not undefined/],
  ])('L7: refuses %s, before anything begins', async (_, given, options, text) => {
    const error = await refusal(() => outbox.transaction(given as never, options as never));
    expect([error.code, runs]).toEqual(['INVALID_OPTIONS', 0]);
    expect(error.message).toMatch(text);
    const joined = await outbox.transaction(() => refusal(() => outbox.transaction(given as never, options as never)));
    expect([joined.code, runs]).toEqual(['INVALID_OPTIONS', 0]);
  });
});
