import type { Harness } from './relay.js';

/** The database itself refuses: what a full disk or a missing right does. */
export async function refuse(
  { database, dataSource }: Harness,
  what: 'insert' | 'delete',
  table: string,
): Promise<void> {
  if (database.kind !== 'postgres') {
    await dataSource.query(
      `create trigger refuse before ${what} on ${table} for each row signal sqlstate '45000' set message_text = 'not today'`,
    );
    return;
  }
  await dataSource.query(
    `create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'not today'; end $$`,
  );
  await dataSource.query(`create trigger refuse before ${what} on ${table} for each row execute function refuse()`);
}
export async function allow({ database, dataSource }: Harness, table: string): Promise<void> {
  await dataSource.query(`drop trigger refuse${database.kind === 'postgres' ? ` on ${table}` : ''}`);
}
