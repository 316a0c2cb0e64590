import type { DeadLetterEvent } from '../../../lib/index.js';
import { ROW_LIMITS, TOO_LARGE } from '../../../lib/store/limits.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnMysqlFamily, describeWith, type DatabaseKind } from '../../support/services.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

const LONG = 3_000_000;

/** Rows of another program, where no limit of the table stops them. */
describe('J11: a row that is longer than anybody may write', () => {
  let harness: Harness;
  let letters: DeadLetterEvent[];
  let transport: ScriptedTransport;

  async function start(kind: DatabaseKind, coordination: 'buckets' | 'rowLock' = 'buckets'): Promise<void> {
    letters = [];
    transport = new ScriptedTransport();
    const deadLetter = (letter: DeadLetterEvent): void => void letters.push(letter);
    const ordering = coordination === 'rowLock' ? 'none' : 'key';
    const options = { buckets: 2, coordination, ordering, onDead: 'skip', pollInterval: 50, deadLetter } as const;
    harness = await createHarness(kind, options);
  }
  afterEach(() => harness.close());
  const query = (sql: string): Promise<unknown> => harness.dataSource.query(sql);
  const told = (): unknown[] =>
    letters.map(({ message: { topic, headersJson, optionsJson, payload }, error }) => ({
      ...{ topic, headersJson, optionsJson, payload },
      error,
    }));
  const WITHHELD = { headersJson: null, optionsJson: null, payload: null, error: expect.stringContaining(TOO_LARGE) };

  describeOnMysqlFamily('the limit of a packet', (kind) => {
    it.each(['buckets', 'rowLock'] as const)(
      'is dead and stays in the database, its neighbours go on (%s)',
      async (coordination) => {
        await start(kind, coordination);
        const insert = `insert into outbox_ready (topic, \`key\`, headers, payload)`;
        const most = `concat('{"h":"', repeat('x', ${String(ROW_LIMITS.headers - 8)}), '"}')`;
        await query(`${insert} values ('large', 'k', repeat('x', ${String(LONG)}), null), ('behind', 'k', null, '1')`);
        await query(`${insert} values ('fits', 'other', ${most}, '2')`);
        await harness.relay({ default: transport }).dispatcher.start();
        await until(() => letters.length === 1 && transport.published.length === 2);
        expect(transport.attempted.map(({ topic }) => topic).toSorted()).toEqual(['behind', 'fits']);
        expect(told()).toEqual([{ topic: 'large', ...WITHHELD }]);
        expect(await query('select topic, cast(octet_length(headers) as char) as n from outbox_parked')).toEqual([
          { topic: 'large', n: String(LONG) },
        ]);
      },
    );
  });

  describeWith('postgres', 'postgres', () => {
    it.each(['buckets', 'rowLock'] as const)(
      'is dead since the limits came; when it is requeued it is dead again (%s)',
      async (coordination) => {
        await start('postgres', coordination);
        const long = `repeat('x', ${String(LONG)})`;
        await query(`insert into outbox_parked (bucket, id, topic, type, content_type, headers, options, payload, state, died_at, last_error)
          values (1, gen_random_uuid(), ${long}, ${long}, ${long}, ${long}, ${long}, '1', 4, now(), 'was ${TOO_LARGE}')`);
        await harness.relay({ default: transport }).dispatcher.start();
        await until(() => letters.length === 1);
        await operatorOf(harness.store).requeue({ state: 'dead' });
        await until(() => letters.length === 2);
        expect(transport.attempted).toEqual([]);
        const topic = 'x'.repeat(ROW_LIMITS.topic);
        expect(told()).toEqual([
          { topic, ...WITHHELD, payload: Buffer.from('1') },
          { topic, ...WITHHELD, payload: Buffer.from('1') },
        ]);
      },
    );
  });
});
