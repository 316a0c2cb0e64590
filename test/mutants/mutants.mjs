import { CLAIM } from './claim.mjs';
import { PUBLISH } from './publish.mjs';
import { SETTLE } from './settle.mjs';
import { STORE } from './store.mjs';
import { STRICT } from './strict.mjs';

/**
 * Bugs to plant: in `file`, `from` becomes `to`.
 * `chaos`: the servers of its short chaos run (default PostgreSQL and RabbitMQ), or false where chaos cannot see it;
 * `contract`: a spec that must fail, for bugs inside one statement.
 * @type {{ name: string, breaks: string, file: string, from: string, to: string, chaos?: object | false, contract?: string }[]}
 */
export const MUTANTS = [...CLAIM, ...PUBLISH, ...SETTLE, ...STORE, ...STRICT];
