import assert from 'node:assert/strict';
import type { Harness } from './relay.js';

/** Takes what is stored of one payload out of its table, as a disk does that loses it. */
export async function takeChunks(
  { dataSource }: Pick<Harness, 'dataSource'>,
  id: string,
  table = 'outbox_ready',
): Promise<{ putBack(): Promise<void> }> {
  const [row] = (await dataSource.query(
    `select reltoastrelid::regclass::text as toast from pg_class where oid = '${table}'::regclass`,
  )) as { toast: string }[];
  const toast = row?.toast as string;
  // As a table like any other it can be written.
  const kind = (value: string) => `update pg_class set relkind = '${value}' where oid = '${toast}'::regclass`;
  const change = async (...statements: string[]): Promise<void> => {
    await dataSource.transaction(async (manager) => {
      for (const sql of ['set local allow_system_table_mods = on', kind('r'), ...statements, kind('t')])
        await manager.query(sql);
    });
  };
  const [chunk] = (await dataSource.query(
    `select t.chunk_id from ${toast} t, ${table} o
     where o.id = $1 and t.chunk_seq = 0 and substr(t.chunk_data, 1, 64) = substr(o.payload, 1, 64)`,
    [id],
  )) as { chunk_id: string }[];
  const its = `chunk_id = ${chunk?.chunk_id}`;
  await change(`create table lost as select * from ${toast} where ${its}`, `delete from ${toast} where ${its}`);
  const read = () => dataSource.query(`select md5(payload) from ${table} where id = $1`, [id]);
  let error: { code?: string } | undefined;
  // Chunks that are only deleted are still read, and somebody else's snapshot may keep them for a moment.
  while (error === undefined) {
    await dataSource.query(`vacuum ${toast}`);
    error = await read().then(
      () => undefined,
      (reason: { code?: string }) => reason,
    );
  }
  assert.equal(error.code, 'XX001');
  return { putBack: () => change(`insert into ${toast} select * from lost`) };
}
