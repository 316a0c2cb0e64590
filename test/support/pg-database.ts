import { Client } from 'pg';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../../lib/store/executor.js';

export type Query = (text: unknown, values?: unknown) => Promise<{ rows: unknown[][]; rowCount: number | null }>;
export const queryOf = (client: Client): Query => client.query.bind(client) as never;

/** Every column arrives as the text that the server sent. */
const RAW = { rowMode: 'array', types: { getTypeParser: () => (value: string) => value } };
export const executorOn = (query: Query): SqlExecutor => ({
  async run({ statement, values }) {
    const { rows, rowCount } = await query({ text: statement.positional, values, ...RAW });
    return { rows, affected: rowCount ?? 0 };
  },
});

/** Between `begin` and `end`, or `back`. */
export async function around<T>(
  query: Query,
  [begin, end, back]: readonly [string, string, string],
  work: () => Promise<T>,
): Promise<T> {
  await query(begin);
  const result = await work().catch((error: Error) => query(back).then(() => Promise.reject(error)));
  return query(end).then(() => result);
}
export const TRANSACTION = ['begin', 'commit', 'rollback'] as const;

/** Connections of the relay over pg alone, one for each role: they are never lost. */
export function pgDatabase(connectionString: string | undefined): SqlDatabase {
  const clients: Client[] = [];
  const connect = (): SqlConnection => {
    const client = new Client({ connectionString });
    clients.push(client);
    let tail: Promise<unknown> = client.connect();
    const query = queryOf(client);
    const { run } = executorOn(query);
    const next = <T>(work: () => Promise<T>): Promise<T> => (tail = tail.then(work, work)) as Promise<T>;
    return {
      generation: 0,
      run: (sql) => next(() => run(sql)),
      transaction: (work) => next(() => around(query, TRANSACTION, () => work({ run }, new AbortController().signal))),
    };
  };
  const open = new Map<string, SqlConnection>();
  return {
    connection: (role) => open.get(role) ?? (open.set(role, connect()).get(role) as SqlConnection),
    close: async () => void (await Promise.all(clients.map((client) => client.end()))),
  };
}
