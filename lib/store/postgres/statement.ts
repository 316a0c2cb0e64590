import { inCatalog } from './schema/catalog.js';
import { Statement } from '../sql.js';

/**
 * A statement whose functions are PostgreSQL's own, whatever the session's search_path is: behind a transaction pooler, and on
 * the caller's connection, it is not ours.
 */
export const statement = (name: string | undefined, text: string): Statement => new Statement(name, inCatalog(text));
