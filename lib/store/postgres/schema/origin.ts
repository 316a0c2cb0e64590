import { OutboxConfigurationError } from '../../../outbox.errors.js';
import type { SqlConnection } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement } from '../statement.js';

/** Row of the meta table: the database in which a relay first published. */
const ORIGIN = 'database';
/** May not: read the server's identity, write the meta table. */
const FORBIDDEN = '42501';

/**
 * Compares this database with the one that the tables belong to. A dump that is restored, a template or a server of
 * another `initdb` is another one; a physical replica that was promoted and a restored base backup are the same. Tables
 * without messages change hands without a word: there is nothing to publish twice.
 */
export async function checkOrigin(connection: SqlConnection, names: TableNames): Promise<void> {
  const sql = originStatements(names);
  try {
    const [row] = (await connection.run(sql.look.bind())).rows;
    const [here, stored, waiting] = row as readonly (string | null)[];
    if (stored === here) return;
    if (stored === null || waiting === 'f') await connection.run(sql.adopt.bind(here));
    else throw copied(names);
  } catch (error) {
    if ((error as { code?: string }).code !== FORBIDDEN) throw error;
  }
}

function originStatements({ meta, ready, parked }: TableNames) {
  return {
    look: statement(
      undefined,
      `select s.system_identifier::text || '/' || d.oid::text, (select value from ${meta} where name = '${ORIGIN}'),
         exists (select from ${ready}) or exists (select from ${parked})
       from pg_control_system() s, pg_database d where d.datname = current_database()`,
    ),
    adopt: statement(
      undefined,
      `insert into ${meta} (name, value) values ('${ORIGIN}', ?) on conflict (name) do update set value = excluded.value`,
    ),
  };
}

function copied({ ready, meta }: TableNames): OutboxConfigurationError {
  const text = `The messages in ${ready} came from another database, with a backup or a copy; what its relay published would be published again.`;
  const hint = `To publish them, run: delete from ${meta} where name = '${ORIGIN}'. To drop them, empty the tables first. The relay looks again by itself.`;
  return new OutboxConfigurationError('DATABASE_COPIED', text, { hint });
}
