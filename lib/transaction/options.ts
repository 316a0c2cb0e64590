import { meantHint } from '../options/did-you-mean.js';
import { misconfigured } from '../outbox.errors.js';
import type { IsolationLevel } from '../outbox-data-layer.js';
import { typeName } from '../options/text-checks.js';

const LEVELS = ['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

/** Of `outbox.transaction`. */
export interface OutboxTransactionOptions {
  /** A savepoint inside the ambient transaction instead of joining it. Default false. */
  nested?: boolean;
  /** Of a new transaction; an ambient one has its own already. */
  isolation?: IsolationLevel;
}

const NAMES = ['nested', 'isolation'];

/** Before anything begins: a savepoint or a level that was asked for in vain would not be missed before it is needed. */
export function checkTransaction(work: unknown, options: unknown): void {
  if (typeof work !== 'function') refuse(`work must be a function, not ${typeName(work)}`);
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    refuse(`options must be an object, not ${typeName(options)}`, 'Say { nested: true } or { isolation }.');
  }
  for (const name of Object.keys(options)) {
    if (!NAMES.includes(name)) refuse(`unknown option '${name.slice(0, 100)}'`, meantHint(name, NAMES));
  }
  const { nested, isolation } = options as { nested?: unknown; isolation?: unknown };
  if (nested !== undefined && typeof nested !== 'boolean') refuse(`nested must be a boolean, not ${typeName(nested)}`);
  if (isolation !== undefined && !(LEVELS as readonly unknown[]).includes(isolation)) {
    refuse('unknown isolation', meantHint(isolation, LEVELS));
  }
}

function refuse(problem: string, hint?: string): never {
  misconfigured(`outbox.transaction: ${problem}.`, hint);
}
