import type { DataSource, EntityManager } from 'typeorm';

/** Runs `effect` once per message id, however often the message arrives. */
export async function handleOnce(
  dataSource: DataSource,
  id: string,
  effect: (manager: EntityManager) => Promise<void>,
): Promise<void> {
  await dataSource.transaction(async (manager) => {
    const sql = 'insert into handled_messages (id) values ($1) on conflict do nothing returning id';
    const fresh: unknown[] = await manager.query(sql, [id]);
    if (fresh.length > 0) await effect(manager);
  });
}
