import type { DataSource } from 'typeorm';
import { OutboxEvent, type OutboxService, type PlainMessage } from '../../lib/index.js';
import { CANARY } from './canaries.js';
import type { Seen } from './seen.js';

export const secretPayload = () => ({
  card: CANARY.payload,
  deep: { list: [CANARY.nested, { pan: CANARY.number }] },
});
export const secret = (more: Partial<PlainMessage> = {}): PlainMessage => ({
  type: 'plain',
  key: 'key-1',
  payload: secretPayload(),
  headers: { h: CANARY.header, b: Buffer.from(CANARY.headerBytes) },
  options: { custom: { token: CANARY.option } },
  ...more,
});

const quoting = (what: unknown): Error =>
  Object.assign(new Error(`cannot read ${JSON.stringify(what)} of ${CANARY.payload}`), { event: what });

@OutboxEvent<Throwing>({
  type: 'throwing',
  key: (event) => {
    throw quoting(event);
  },
})
class Throwing {
  readonly card = CANARY.payload;
}
@OutboxEvent<Refused>({
  type: 'refused',
  validate: (event) => [{ ...quoting(event), path: ['card'] }],
})
class Refused {
  readonly card = CANARY.payload;
}
@OutboxEvent<Checked>({
  type: 'checked',
  validate: (event) => {
    throw quoting(event);
  },
})
class Checked {
  readonly card = CANARY.payload;
}
class NotSerializable {
  readonly card = CANARY.payload;
  toJSON(): unknown {
    throw quoting({ card: this.card });
  }
}
class Undecorated {
  readonly card = CANARY.payload;
}

/** Every way in which `enqueue` refuses, and in which the database does. */
export async function failingEnqueues(outbox: OutboxService, dataSource: DataSource, seen: Seen): Promise<void> {
  const enqueue = (message: object, options: object = {}) =>
    outbox.enqueueOutsideTransaction(message as never, options);
  const refused: Record<string, () => unknown> = {
    'no transaction': () => outbox.enqueue(secret()),
    'another manager': () => outbox.enqueue(secret(), { manager: { card: CANARY.payload } as never }),
    'key missing': () => enqueue(secret({ key: undefined as never })),
    'key with NUL': () => enqueue(secret({ key: `\0` })),
    'unknown field': () => enqueue({ ...secret(), playload: CANARY.payload }),
    'unknown option': () => enqueue(secret(), { dedupkey: CANARY.option }),
    'unknown transport': () => enqueue(secret({ transport: 'elsewhere' })),
    'no event': () => enqueue(new Undecorated()),
    'no message': () => enqueue([[secretPayload()]] as never),
    'key function throws': () => enqueue(new Throwing()),
    'validate refuses': () => enqueue(new Refused()),
    'validate throws': () => enqueue(new Checked()),
    'toJSON throws': () => enqueue(secret({ payload: new NotSerializable() })),
    'a BigInt': () => enqueue(secret({ payload: { card: CANARY.payload, n: 1n } })),
    'text that is no JSON': () =>
      enqueue(secret({ payload: `{"card":"${CANARY.payload}"`, contentType: 'application/json' })),
    'too large': () => enqueue(secret({ payload: CANARY.payload.repeat(100_000) })),
    'headers of objects': () => enqueue(secret({ headers: { h: { card: CANARY.header } as never } })),
    'header with NUL': () => enqueue(secret({ headers: { h: `${CANARY.header}\0` } })),
    'options with a function': () =>
      enqueue(secret({ options: { a: { secret: CANARY.option, b: () => CANARY.option } } })),
    'reserved options': () => enqueue(secret({ options: { $retry: CANARY.option } })),
    'id that is none': () => enqueue(secret({ id: CANARY.option })),
  };
  for (const [what, work] of Object.entries(refused)) await seen.failure(`enqueue: ${what}`, work);
  const [id] = await outbox.enqueueOutsideTransaction([secret({ type: 'first', transport: 'quiet' })]);
  await seen.failure('enqueue: an id twice', () =>
    enqueue([secret({ id: id as string, transport: 'quiet' }), secret({ id: id as string, transport: 'quiet' })]),
  );
  await refusedByTheDatabase(outbox, dataSource, seen);
}

async function refusedByTheDatabase(outbox: OutboxService, dataSource: DataSource, seen: Seen): Promise<void> {
  const all = [secret({ transport: 'quiet' }), secret({ transport: 'quiet', payload: Buffer.from(CANARY.bytes) })];
  const enqueue = (options?: object) => outbox.enqueueOutsideTransaction(all, options);
  const postgres = dataSource.options.type === 'postgres';
  await seen.until('what was enqueued is out', async () => (await outbox.stats()).total.ready === 0);
  const change = async (what: string, how: string, back: string): Promise<void> => {
    await dataSource.query(how);
    await seen.failure(`database: ${what}`, () => enqueue());
    await dataSource.query(back);
  };
  await change(
    'a check constraint',
    "alter table outbox_ready add constraint refuse_ready check (type <> 'plain')",
    'alter table outbox_ready drop constraint refuse_ready',
  );
  await change('a missing table', 'alter table outbox_ready rename to gone', 'alter table gone rename to outbox_ready');
  await change(
    'a unique violation',
    `create unique index refuse on outbox_ready (headers${postgres ? '' : '(99)'})`, // whose values the server quotes
    `drop index refuse${postgres ? '' : ' on outbox_ready'}`,
  );
  const modify = 'alter table outbox_ready modify headers';
  const another = 'a value of another type'; // which the server quotes, too
  if (postgres) {
    const check = 'alter table outbox_ready add constraint refuse_ready check (headers::int > 0) not valid';
    await change(another, check, 'alter table outbox_ready drop constraint refuse_ready');
  } else {
    await change(another, `${modify} int`, `${modify} mediumtext`);
    await change('a value that is too long', `${modify} varchar(3)`, `${modify} mediumtext`);
  }
  await seen.failure('database: the session is killed', () =>
    dataSource.transaction(async (manager) => {
      const [row] = await manager.query(`select ${postgres ? 'pg_backend_pid()' : 'connection_id()'} as id`);
      await dataSource.query(postgres ? `select pg_terminate_backend(${row.id})` : `kill ${row.id}`);
      await outbox.enqueue(all, { manager });
    }),
  );
}
