import { misconfigured } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Tables } from '../transaction/data-layer.js';

/** One outbox of an application that runs in this process. */
export interface Instance {
  readonly name: string;
  /** Anything that is one per application. */
  readonly application: object;
  /** What the application has of its data layer. */
  readonly source: object;
  readonly options: ResolvedOptions;
  readonly tables: Tables;
  /** Where the module was declared. */
  readonly declaredAt: string;
  /**
   * From bootstrap until it begins to stop: an application that failed before never stops, and must not stand in the way of
   * the next; nor must one whose end a hot reload does not wait for.
   */
  started: boolean;
  /** Its store is closed: it can neither relay nor enqueue any more. */
  closed?: true;
  /** Closes what it has opened so far, for an application that will never run. May be called twice. */
  abandon?: () => Promise<void>;
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

export function markStopping(instance: Instance): void {
  instance.started = false;
}

/** The application is over: loops would only find a closed store. */
export function refuseClosed({ name, closed }: Instance): void {
  if (closed === undefined) return;
  const hint = 'Start the relay, or call runOnce() and drain(), before app.close().';
  misconfigured(`The outbox '${name}' is closed, with its application.`, hint, 'NOT_STARTED');
}

/** Those of every application, but for what is over. */
export function openInstances(): Instance[] {
  return [...registry().instances].filter(({ closed }) => closed === undefined);
}

export function instancesOf(application: object): Instance[] {
  return [...registry().instances].filter((instance) => instance.application === application);
}

/**
 * An application whose start fails is not closed by Nest, and nobody has a handle to it: the connections of its outboxes would keep
 * the process for ever. @param which of them; what runs already is left alone where only a module that came later fails
 */
export async function abandon(application: object, which: 'all' | 'not started'): Promise<void> {
  const left = instancesOf(application).filter(({ started }) => which === 'all' || !started);
  await Promise.allSettled(left.map((instance) => instance.abandon?.()));
}

/**
 * Two outboxes of one data layer would enqueue, publish and count in ignorance of each other. Relays of two DataSources
 * share the work as those of two processes do, but in one process nobody means to start them.
 */
function refuseTwin(instance: Instance, other: Instance): void {
  const twins = twinsBecause(instance, other);
  if (twins === undefined) return;
  const text = `${twins.problem}.\n  first:  ${other.declaredAt}\n  second: ${instance.declaredAt}\n`;
  misconfigured(text, twins.hint, 'DUPLICATE_INSTANCE');
}

function twinsBecause(one: Instance, other: Instance): { problem: string; hint: string } | undefined {
  const { name, options } = one;
  if (other.application === one.application && other.name === name) {
    return {
      problem: `There are two outboxes named '${name}' in this application`,
      hint: 'Import OutboxModule.forRoot() once, in the root module (every call makes another instance); or give them names.',
    };
  }
  if (one.tables.server !== other.tables.server || one.tables.names !== other.tables.names) return undefined;
  if (other.source === one.source) {
    return {
      problem: `The outboxes '${other.name}' and '${name}' use the same tables by one data layer`,
      hint: 'Give one of them another database.prefix, dataLayer or dataSource, or close the first application before the second starts.',
    };
  }
  if (options.relay !== true || other.options.relay !== true) return undefined;
  return {
    problem: `The outboxes '${other.name}' and '${name}' relay from the same tables in one process`,
    hint: "Close the first before the second starts, or set relay: false or another database.prefix in one of them. Further relays of a database run in processes of their own; in a test, with relay: 'manual' and OutboxDispatcher.start().",
  };
}

// When it is loaded: a module of one copy and a class of the other fail before anything starts.
registry().copies.add(ownFile());

/** Classes and tokens of one copy are none of the other's. @returns what to say when this package was loaded more than once */
export function copiesText(): string | undefined {
  const { copies } = registry();
  if (copies.size < 2) return undefined;
  return `nestjs-outbox is loaded more than once in this process; keep one copy (npm dedupe; import it or require it, not both): ${[...copies].join(' and ')}`;
}

/** The file and line that called the function `skip`; as a file path or URL, as the runtime says it. */
export function callerOf(skip: (...args: never[]) => unknown): string {
  return frameBelow(skip).replace(/^\s*at /, '') || 'unknown';
}

/** This file, without `import.meta` (absent in CommonJS) and `__filename` (absent in ESM). */
export function ownFile(): string {
  const frame = frameBelow(frameBelow).replace(/^\s*at (?:ownFile )?/, '');
  return /\(?((?:file:\/\/)?[^()\s][^()]*?):\d+:\d+\)?$/.exec(frame)?.[1] ?? 'unknown';
}

/** The line of the stack that called this function. */
function frameBelow(skip: (...args: never[]) => unknown): string {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, skip);
  return holder.stack?.split('\n')[1] ?? '';
}
