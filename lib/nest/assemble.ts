import type { ModuleRef } from '@nestjs/core';
import { OutboxUnlocker } from '../relay/leases/unlocker.js';
import { OutboxCleaner } from '../clean/cleaner.js';
import { OutboxPartitionMaintainer } from '../partitions/maintainer.js';
import { systemClock, type Clock } from '../time/clock.js';
import { OutboxDispatcher } from '../relay/dispatcher.js';
import { PARKED_POLLS } from '../relay/relay-loops.js';
import type { EnqueueRuntime } from '../enqueue/runtime.js';
import type { EventStream } from '../observe/event-stream.js';
import type { OutboxExtras, OutboxOptions, ResolvedOptions } from '../outbox.options.js';
import { decrypting } from '../encryption/decrypt-payloads.js';
import { InProcessHandlers } from '../transports/in-process/handlers.js';
import { resolveOptions } from '../options/resolve.js';
import type { TransportWrapper } from '../options/transport-wrapper.js';
import type { OutboxStore, WakeUp } from '../store/outbox-store.js';
import type { ExpectedMessages, OutboxTransport } from '../transports/transport.js';
import type { DataLayer } from '../transaction/data-layer.js';
import { areTablesApart, asMarked } from './enqueue-only.js';
import { expectedHere } from './expected.js';
import { abandon, refuseClosed, register, type Instance } from './instances.js';
import { Notifier } from '../relay/wake/notifier.js';
import { hooksFor, openEvents } from './open-events.js';
import { closeInTime, openStore, prepareStore, storeOf, storeSettings } from './open-store.js';
import type { OutboxOverrides } from './overrides.js';
import { withCleanScopes, wrapped } from './relay-options.js';
import { reportOf } from './report.js';
import { createTransports } from './transports.js';
import { WakeListener } from '../relay/wake/wake-listener.js';

const NO_IDS: ReadonlyMap<string, number> = new Map();

/** One outbox, opened: its store is checked and its transports have numbers; nothing runs yet. */
export interface OutboxRuntime {
  readonly options: ResolvedOptions;
  readonly instance: Instance;
  readonly clock: Clock;
  readonly events: EventStream;
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
  const { source } = dataLayer;
  await dataLayer.open();
  const tables = dataLayer.tablesOf(options);
  const instance: Instance = { name, application, source, options, tables, declaredAt, started: false };
  const unregister = register(instance);
  const toClose: (() => unknown)[] = [() => events.close()];
  const close = once(async () => {
    unregister();
    instance.closed = true;
    for (const each of toClose.reverse()) await each();
  });
  instance.abandon = close;
  try {
    const store = storeOf(dataLayer, options, events);
    toClose.push(() => closeInTime(clock, store));
    const notifier = notifierOf(store, options, events, clock);
    toClose.push(() => notifier.close());
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

/** All that an outbox is made of. */
function assemble(parts: Parts): OutboxRuntime {
  const { options, clock, events, instance, store, notifier, close } = parts;
  const wrappers: TransportWrapper[] = [];
  const isHeard = options.wakeUp !== 'poll' && store.listen !== undefined;
  const wake = (where: WakeUp): void => (where === 'leases' ? dispatcher.lookAtLeases() : dispatcher.nudge(where));
  const listener = isHeard ? new WakeListener(store, clock, events, wake) : undefined;
  const dispatcher = dispatcherOf(parts, wrappers, () => listener?.hears ?? false);
  return {
    options,
    instance,
    clock,
    events,
    store,
    enqueue: enqueueOf(parts, dispatcher, wrappers),
    dispatcher,
    listener,
    unlocker: new OutboxUnlocker(store.leases, events),
    cleaner: new OutboxCleaner(store, events, options.retention, options.deadLetter !== undefined, clock),
    maintainer: new OutboxPartitionMaintainer(store, events, options.partitions),
    handlers: new InProcessHandlers(),
    apart: apartFromRelay(parts),
    pausesChanged() {
      dispatcher.lookAtLeases();
      notifier.notify('leases');
    },
    close,
  };
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
      return createTransports(
        wrapped(options.transports, [...wrappers, decrypting(options.encryption, clock)]),
        moduleRef,
      );
    },
  });
}

function enqueueOf(parts: Parts, dispatcher: OutboxDispatcher, wrappers: TransportWrapper[]): EnqueueRuntime {
  const { options, dataLayer, clock, events, store, notifier, transportIds, overrides } = parts;
  return {
    options,
    dataLayer,
    store,
    transportIds,
    hooks: hooksFor(events, overrides),
    events,
    report: reportOf({ store, dispatcher, options, transportIds, clock }),
    wrappers,
    workAppeared(where, ms = 0) {
      if (ms > options.pollInterval * PARKED_POLLS) return; // a look before that hears of it
      dispatcher.nudge(where, ms);
      if (!dispatcher.holdsAll) notifier.notify(where);
    },
    onEnqueued: (messages) => overrides?.onEnqueued?.(messages),
    onRolledBack: (ids) => overrides?.onRolledBack?.(ids),
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

function notifierOf(store: OutboxStore, options: ResolvedOptions, events: EventStream, clock: Clock): Notifier {
  const wanted = options.wakeUp !== 'poll' && store.notify !== undefined;
  return new Notifier(
    wanted ? (where) => (store.notify as Required<OutboxStore>['notify']).call(store, where) : undefined,
    (error) => events.emit('error', { operation: 'wake', error, retryIn: null }),
    clock,
  );
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
