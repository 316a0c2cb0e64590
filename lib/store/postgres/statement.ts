import { inCatalog } from './schema/catalog.js';
import { rowsOf as plainRowsOf } from '../rows-of.js';
import { Statement } from '../sql.js';

/**
 * A statement whose functions are PostgreSQL's own, whatever the session's search_path is: behind a transaction pooler, and on
 * the caller's connection, it is not ours.
 */
export const statement = (name: string | undefined, text: string): Statement => new Statement(name, inCatalog(text));

export const rowsOf: typeof plainRowsOf = (db, text, ...values) => plainRowsOf(db, inCatalog(text), ...values);
