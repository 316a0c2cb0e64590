import type { DataSource } from 'typeorm';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';

/** One outbox of an application that runs in this process. */
export interface Instance {
  readonly name: string;
  /** Anything that is one per application. */
  readonly application: object;
  readonly dataSource: DataSource;
  readonly options: ResolvedOptions;
  /** Where the module was declared. */
  readonly declaredAt: string;
  /** Set at bootstrap: an application that failed before never stops, and must not stand in the way of the next. */
  started: boolean;
}
interface Registry {
  readonly instances: Set<Instance>;
  /** Files of the copies of this package that were loaded. */
  readonly copies: Set<string>;
}

/** One per process, whatever copies of this package are in it. */
const REGISTRY = Symbol.for('nestjs-outbox:instances');

function registry(): Registry {
  const shared = globalThis as { [REGISTRY]?: Registry };
  return (shared[REGISTRY] ??= { instances: new Set(), copies: new Set() });
}

/** Refuses a twin in the same application. @returns a function that removes it again */
export function register(instance: Instance): () => void {
  const { instances } = registry();
  for (const other of instances) if (other.application === instance.application) refuseTwin(instance, other);
  instances.add(instance);
  return () => {
    instances.delete(instance);
  };
}

/** Refuses a twin in another application of this process that runs. */
export function markStarted(instance: Instance): void {
  for (const other of registry().instances) if (other !== instance && other.started) refuseTwin(instance, other);
  instance.started = true;
}

export function instancesOf(application: object): Instance[] {
  return [...registry().instances].filter((instance) => instance.application === application);
}

/** Two of them would publish, count and clean the same rows in ignorance of each other. */
function refuseTwin(instance: Instance, other: Instance): void {
  const { name, options } = instance;
  const sameTables =
    other.dataSource === instance.dataSource &&
    other.options.database.schema === options.database.schema &&
    other.options.database.prefix === options.database.prefix;
  const sameName = other.application === instance.application && other.name === name;
  if (!sameName && !sameTables) return;
  const problem = sameName
    ? `There are two outboxes named '${name}' in this application`
    : `The outboxes '${other.name}' and '${name}' use the same tables of one DataSource`;
  throw new OutboxConfigurationError(
    'DUPLICATE_INSTANCE',
    `${problem}.\n  first:  ${other.declaredAt}\n  second: ${instance.declaredAt}\n`,
    {
      hint: sameName
        ? 'Import OutboxModule.forRoot() once, in the root module (every call makes another instance); or give them names.'
        : 'Give one of them another database.prefix or dataSource.',
    },
  );
}

/** @returns the other files when this package was loaded more than once, for a warning */
export function registerCopy(file: string): string[] {
  const { copies } = registry();
  copies.add(file);
  return [...copies].filter((copy) => copy !== file);
}

/** The file and line that called the function `skip`; as a file path or URL, as the runtime says it. */
export function callerOf(skip: (...args: never[]) => unknown): string {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, skip);
  return holder.stack?.split('\n')[1]?.replace(/^\s*at /, '') ?? 'unknown';
}

/** This file, without `import.meta` (absent in CommonJS) and `__filename` (absent in ESM). */
export function ownFile(): string {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder);
  const frame = holder.stack?.split('\n')[1] ?? '';
  return (
    /\(?((?:file:\/\/)?[^()\s][^()]*?):\d+:\d+\)?$/.exec(frame.replace(/^\s*at (?:ownFile )?/, ''))?.[1] ?? 'unknown'
  );
}
