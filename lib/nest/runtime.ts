import { Logger, type LoggerService } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { inCleanScope } from '../time/async-scope.js';
import { OutboxUnlocker } from '../relay/leases/unlocker.js';
import { OutboxCleaner } from '../clean/cleaner.js';
import { OutboxPartitionMaintainer } from '../partitions/maintainer.js';
import { systemClock, within, type Clock } from '../time/clock.js';
import { OutboxDispatcher } from '../relay/dispatcher.js';
import { PARKED_POLLS } from '../relay/relay-loops.js';
import { classifierFor } from '../enqueue/events/event-metadata.js';
import type { EnqueueRuntime } from '../enqueue/runtime.js';
import type { OutboxEventMap, OutboxHooks } from '../observe/events.js';
import { errorText } from '../observe/redact/error-text.js';
import { logEvents, write } from '../observe/log-events.js';
import { LogLine } from '../observe/log-line.js';
import { OutboxEvents } from '../observe/outbox-events.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { Classifier, OpenStore, OutboxExtras, OutboxOptions, ResolvedOptions } from '../outbox.options.js';
import { InProcessHandlers } from '../transports/in-process/handlers.js';
import { resolveOptions } from '../options/resolve.js';
import type { TransportWrapper } from '../options/transport-wrapper.js';
import { isThenable } from '../message/is-thenable.js';
import type { OutboxStore, WakeUp } from '../store/outbox-store.js';
import type { ExpectedMessages, OutboxTransport } from '../transports/transport.js';
import type { DataLayer } from '../transaction/data-layer.js';
import { areTablesApart, asMarked, isMarked } from './enqueue-only.js';
import { expectedHere } from './expected.js';
import { abandon, copiesText, refuseClosed, register, type Instance } from './instances.js';
import { Notifier } from './notifier.js';
import { openStore, type OpenStoreSettings } from './open-store.js';
import type { OutboxOverrides } from './overrides.js';
import { reportOf } from './report.js';
import { createTransports } from './transports.js';
import { WakeListener } from './wake-listener.js';

/** Milliseconds for the store's connections: a database that fell silent must not keep the application from ending. */
const CLOSE_TIMEOUT = 1_000;
/** Milliseconds. A hundred processes that only enqueue are not to keep two hundred connections. */
const CLOSE_IDLE_AFTER = 5_000;

const NO_IDS: ReadonlyMap<string, number> = new Map();

/** One outbox, opened: its store is checked and its transports have numbers; nothing runs yet. */
export interface OutboxRuntime {
  readonly options: ResolvedOptions;
  readonly instance: Instance;
  readonly clock: Clock;
  readonly events: OutboxEvents;
  readonly store: OutboxStore;
  readonly enqueue: EnqueueRuntime;
  readonly dispatcher: OutboxDispatcher;
  readonly unlocker: OutboxUnlocker;
  readonly cleaner: OutboxCleaner;
  readonly maintainer: OutboxPartitionMaintainer;
  readonly handlers: InProcessHandlers;
  /** Hears of what other processes do, where the database can tell; the relay starts it. */
  readonly listener: WakeListener | undefined;
  readonly apart: ApartFromRelay;
  /** An operator paused or resumed: relays, here and elsewhere, hear of it now and not with their next heartbeat. */
  pausesChanged(): void;
  /** Closes the store and the event stream; the name is free again. May be called twice. */
  close(): Promise<void>;
}
/** For questions that must not stand in the way of the relay. */
export interface ApartFromRelay {
  /** The store on connections of its own, whose statements end after so many milliseconds; one of the application's is the same one. */
  openStore(statementTimeout: number): { readonly store: OutboxStore; close(): Promise<void> };
  /** A transport through which nobody publishes: it is neither connected nor closed. */
  openTransport(name: string): Promise<OutboxTransport>;
  expected(transport: string): readonly ExpectedMessages[];
}
export interface RuntimeSources {
  readonly input: OutboxOptions;
  readonly extras: OutboxExtras;
  readonly overrides: OutboxOverrides | null;
  readonly dataLayer: DataLayer;
  readonly moduleRef: ModuleRef;
  /** One per application. */
  readonly application: object;
  readonly declaredAt: string;
}

/** When it fails, the application does, with all of its outboxes. */
export async function createRuntime(sources: RuntimeSources): Promise<OutboxRuntime> {
  try {
    return await openRuntime(sources);
  } catch (error) {
    await abandon(sources.application, 'not started');
    throw error;
  }
}

async function openRuntime(sources: RuntimeSources): Promise<OutboxRuntime> {
  const { overrides, dataLayer, application, declaredAt } = sources;
  const input = asMarked(overrides?.options?.(sources.input) ?? sources.input);
  const options = resolveOptions(input, sources.extras);
  const clock = overrides?.clock ?? systemClock;
  const events = openEvents(options, clock);
  const { name } = options;
  const tables = dataLayer.tablesOf(options);
  const { source } = dataLayer;
  const instance: Instance = { name, application, source, options, tables, declaredAt, started: false };
  const unregister = register(instance);
  const store = orUndo(
    () => open(dataLayer, options, events),
    () => {
      unregister();
      events.close();
    },
  );
  const notifier = notifierOf(store, options, events, clock);
  const close = once(async () => {
    unregister();
    instance.closed = true;
    await notifier.close();
    await closeInTime(clock, store);
    events.close();
  });
  instance.abandon = close;
  try {
    const transportIds = areTablesApart() ? NO_IDS : await prepareStore(store, options, events);
    refuseClosed(instance); // another outbox of the application failed meanwhile
    return assemble({ ...sources, options, clock, events, instance, store, notifier, transportIds, close });
  } catch (error) {
    await close();
    throw error;
  }
}

interface Parts
  extends RuntimeSources, Pick<OutboxRuntime, 'options' | 'clock' | 'events' | 'instance' | 'store' | 'close'> {
  readonly notifier: Notifier;
  readonly transportIds: ReadonlyMap<string, number>;
}

function dispatcherOf(parts: Parts, wrappers: readonly TransportWrapper[], hears: () => boolean): OutboxDispatcher {
  const { options, clock, events, instance, store, notifier, transportIds, overrides, moduleRef } = parts;
  return new OutboxDispatcher({
    options: withCleanScopes(options),
    store: overrides?.relayStore?.(store) ?? store,
    clock,
    random: overrides?.random ?? Math.random,
    hooks: events,
    transportIds,
    expected: expectedHere(options),
    leasesChanged: () => notifier.notify('leases'),
    hears,
    async createTransports() {
      refuseClosed(instance);
      return createTransports(wrapped(options.transports, wrappers), moduleRef);
    },
  });
}

function assemble(parts: Parts): OutboxRuntime {
  const { options, clock, events, instance, store, notifier, transportIds, close } = parts;
  const { overrides, dataLayer } = parts;
  const wrappers: TransportWrapper[] = [];
  const isHeard = options.wakeUp !== 'poll' && store.listen !== undefined;
  const wake = (where: WakeUp): void => (where === 'leases' ? dispatcher.lookAtLeases() : dispatcher.nudge(where));
  const listener = isHeard ? new WakeListener(store, clock, events, wake) : undefined;
  const dispatcher = dispatcherOf(parts, wrappers, () => listener?.hears ?? false);
  const report = reportOf({ store, dispatcher, options, transportIds, clock });
  const enqueue: EnqueueRuntime = {
    options,
    dataLayer,
    store,
    transportIds,
    hooks: hooksFor(events, overrides),
    events,
    report,
    wrappers,
    committed(where, ms = 0) {
      if (ms > options.pollInterval * PARKED_POLLS) return; // a look before that hears of it
      dispatcher.nudge(where, ms);
      if (!dispatcher.holdsAll) notifier.notify(where);
    },
    ...forTests(overrides),
  };
  return {
    ...{ options, instance, clock, events, store, enqueue, dispatcher, listener, close },
    ...workersOf({ store, options, events, clock }),
    handlers: new InProcessHandlers(),
    apart: apartFromRelay(parts),
    pausesChanged() {
      dispatcher.lookAtLeases();
      notifier.notify('leases');
    },
  };
}

function workersOf({ store, options, events, clock }: Pick<Parts, 'store' | 'options' | 'events' | 'clock'>) {
  return {
    unlocker: new OutboxUnlocker(store.leases, events),
    cleaner: new OutboxCleaner(store, events, options.retention, options.deadLetter !== undefined, clock),
    maintainer: new OutboxPartitionMaintainer(store, events, options.partitions),
  };
}

function apartFromRelay({ options, instance, store, dataLayer, moduleRef }: Parts): ApartFromRelay {
  const expected = expectedHere(options);
  return {
    openStore(statementTimeout) {
      refuseClosed(instance);
      if (options.store !== undefined) return { store, close: async () => undefined };
      const opened = openStore(dataLayer, {
        ...storeSettings(options),
        statementTimeout,
        connectTimeout: statementTimeout,
      });
      return { store: opened, close: () => closeInTime(systemClock, opened) };
    },
    async openTransport(name) {
      const definition = options.transports.get(name);
      const created = await createTransports(new Map(definition && [[name, definition]]), moduleRef);
      return created.get(name) as OutboxTransport;
    },
    expected,
  };
}

function forTests(overrides: OutboxOverrides | null): Pick<EnqueueRuntime, 'onEnqueued' | 'onRolledBack'> {
  return {
    ...(overrides?.onEnqueued === undefined ? {} : { onEnqueued: overrides.onEnqueued.bind(overrides) }),
    ...(overrides?.onRolledBack === undefined ? {} : { onRolledBack: overrides.onRolledBack.bind(overrides) }),
  };
}

function wrapped(
  definitions: ResolvedOptions['transports'],
  wrappers: readonly TransportWrapper[],
): ResolvedOptions['transports'] {
  return new Map(
    [...definitions].map(([name, definition]) => [
      name,
      wrappers.reduce((inner, wrap) => wrap(name, inner), definition),
    ]),
  );
}

/** What the relay calls of the application's, in nobody's context. */
function withCleanScopes(options: ResolvedOptions): ResolvedOptions {
  const { deadLetter, retry } = options;
  const { backoff } = retry;
  const classify = eventsFirst(retry.classify);
  return {
    ...options,
    retry: {
      ...retry,
      classify: (...failure) => inCleanScope(() => classify(...failure)),
      backoff: typeof backoff === 'function' ? (...failed) => inCleanScope(() => backoff(...failed)) : backoff,
    },
    deadLetter: deadLetter && ((letter) => inCleanScope(() => deadLetter(letter))),
  };
}

/** What an event class says of its own failures, then what the module says of all. */
function eventsFirst(ofModule: Classifier | undefined): Classifier {
  return (error, message, blame) =>
    classifierFor(message)?.(error, message, blame) ?? ofModule?.(error, message, blame);
}

function notifierOf(store: OutboxStore, options: ResolvedOptions, events: OutboxEvents, clock: Clock): Notifier {
  const wanted = options.wakeUp !== 'poll' && store.notify !== undefined;
  return new Notifier(
    wanted ? (where) => (store.notify as Required<OutboxStore>['notify']).call(store, where) : undefined,
    (error) => events.emit('error', { operation: 'wake', error, retryIn: null }),
    clock,
  );
}

/** Tests learn of a commit at once, not when the event stream gets to it. */
function hooksFor(events: OutboxEvents, overrides: OutboxOverrides | null): OutboxHooks {
  if (overrides?.onCommitted === undefined) return events;
  return {
    has: (name) => name === 'enqueued' || name === 'deduplicated' || events.has(name),
    emit(name, event) {
      if (name === 'enqueued') overrides.onCommitted?.((event as OutboxEventMap['enqueued']).ids);
      if (name === 'deduplicated') overrides.onDeduplicated?.((event as OutboxEventMap['deduplicated']).ids);
      events.emit(name, event);
    },
  };
}

function openEvents(options: ResolvedOptions, clock: Clock): OutboxEvents {
  const context = options.name === 'default' ? 'Outbox' : `Outbox(${options.name})`;
  const logger: LoggerService = options.logger ?? new Logger(context);
  const events = new OutboxEvents(clock, (name, error) => {
    if (options.logLevel === 'silent') return;
    write(logger, 'error', new LogLine('listener', `a listener of '${name}' failed`, { error: errorText(error) }));
  });
  logEvents(events, logger, options.logLevel, clock);
  const text = copiesText();
  if (text !== undefined) events.emit('warning', { text });
  return events;
}

function open(dataLayer: DataLayer, options: ResolvedOptions, events: OutboxEvents): OutboxStore {
  dataLayer.demandOpen();
  if (options.store !== undefined) {
    return refusePromise(options.store(dataLayer.source as Parameters<OpenStore>[0], options));
  }
  const closeIdleAfter = options.relay === true ? undefined : CLOSE_IDLE_AFTER;
  const warn = (text: string): void => events.emit('warning', { text });
  return openStore(dataLayer, { ...storeSettings(options), closeIdleAfter, warn });
}

function storeSettings(options: ResolvedOptions): OpenStoreSettings {
  const { database, buckets, ordering, coordination, onPublished, publishTimeout, retry, wakeUp } = options;
  const { errorHistory } = retry;
  return { options: database, buckets, ordering, coordination, onPublished, publishTimeout, errorHistory, wakeUp };
}

async function closeInTime(clock: Clock, store: OutboxStore): Promise<void> {
  await within(
    clock,
    CLOSE_TIMEOUT,
    Promise.resolve(store.close()).catch(() => {}),
  );
}

function refusePromise(store: OutboxStore): OutboxStore {
  if (!isThenable(store)) return store;
  throw new OutboxConfigurationError('INVALID_OPTIONS', 'store: it returned a Promise; must be a store.', {
    hint: 'Open what takes time in its check() or create(), or make the options with forRootAsync().',
  });
}

/** @returns the numbers of the transports */
async function prepareStore(
  store: OutboxStore,
  options: ResolvedOptions,
  events: OutboxEvents,
): Promise<ReadonlyMap<string, number>> {
  if (options.wakeUp === 'notify' && store.notify === undefined) {
    throw new OutboxConfigurationError('INVALID_OPTIONS', "wakeUp: 'notify' needs PostgreSQL.", {
      hint: "Leave it out, or say 'poll'.",
    });
  }
  if (typeof options.database.pooler === 'string' && store.listen === undefined) {
    throw new OutboxConfigurationError('INVALID_OPTIONS', 'database.pooler with an address needs PostgreSQL.', {
      hint: 'Leave it out: where nothing can be listened to, the relay polls.',
    });
  }
  const partitionedArchive = options.partitions.period !== undefined;
  if (options.database.setup === 'create') await store.setup.create({ ...options, partitionedArchive });
  if (options.database.setup === 'check') await store.setup.check(options);
  const ids = isMarked()
    ? new Map([...(await store.setup.transports())].filter(([name]) => options.transports.has(name)))
    : await store.setup.registerTransports([...options.transports.keys()], options.defaultTransport);
  const ofTransports = [...options.transports.values()].flatMap(({ warnings = [] }) => warnings);
  for (const text of [...(await store.setup.warnings()), ...ofTransports]) events.emit('warning', { text });
  return ids;
}

function orUndo<T>(work: () => T, undo: () => void): T {
  try {
    return work();
  } catch (error) {
    undo();
    throw error;
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
