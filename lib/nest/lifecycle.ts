import type { OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import { within } from '../time/clock.js';
import { Loop } from '../time/loop.js';
import { twinEvents } from '../enqueue/events/event-twins.js';
import type { OutboxOperation } from '../observe/events.js';
import { createCronJob, type CronHandle } from './cron.js';
import { addHandlers } from './handlers.js';
import { warnOfLateEnqueues } from './late-enqueues.js';
import { abandon, markStarted, markStopping } from './instances.js';
import type { RelayHooks, Started } from './relay-hooks.js';
import type { OutboxRuntime } from './assemble.js';
import { Schedule } from './scheduler.js';
import { onSecondSignal } from './second-signal.js';

/** The loop of a cleaner that cron wakes: at no other time, and never twice at once. */
const WHEN_NUDGED = Infinity;
/** Milliseconds. A pass that finds nothing to do locks nothing; partitions are made days before they are needed. */
const PARTITIONS_EVERY = 3_600_000;
/** Beyond `shutdownTimeout`, for what was cut off then. */
const STOP_MARGIN = 1_000;

/** Starts and stops one outbox with its application. No timer and no broker client before `start`. */
export class OutboxLifecycle implements OnModuleInit, Started, OnApplicationShutdown {
  private readonly loops: { readonly loop: Loop; readonly firstIn: number }[] = [];
  private schedule: Schedule | undefined;
  private cron: CronHandle | undefined;
  /** A pass of the cleaner, or of the maintainer of partitions, ends with its batch at a stop. */
  private readonly cleaning = new AbortController();
  private stopping: Promise<void> | undefined;

  constructor(
    private readonly runtime: OutboxRuntime,
    private readonly modules: ModulesContainer,
    private readonly hooks: RelayHooks,
  ) {
    runtime.instance.abandon = () => this.end();
    hooks.all.add(this);
  }

  async onModuleInit(): Promise<void> {
    this.hooks.isLate = true;
    try {
      addHandlers(this.modules, this.runtime);
    } catch (error) {
      await abandon(this.runtime.instance.application, 'all');
      throw error;
    }
  }

  /** After everybody's bootstrap: handlers find what they need. An application that is closed meanwhile starts nothing. */
  async start(): Promise<void> {
    if (this.isStopping()) return;
    const { options, events, dispatcher, instance } = this.runtime;
    markStarted(instance);
    if (options.relay === true) {
      this.buildLoops();
      await dispatcher.start();
      if (this.isStopping()) return;
      for (const { loop, firstIn } of this.loops) loop.start(firstIn);
      this.runtime.listener?.start();
      this.cron?.start();
    }
    for (const text of twinEvents()) events.emit('warning', { text });
    const role = options.relay === true ? 'relay' : options.relay === 'manual' ? 'manual' : 'enqueue-only';
    events.emit('started', { role, transports: [...options.transports.keys()], buckets: options.buckets });
  }

  /** Awaited, before anybody's `onModuleDestroy`: handlers and clients still work. */
  async beforeDestroy(): Promise<void> {
    markStopping(this.runtime.instance);
    await this.stop();
  }

  /** The last thing: requests that were still being answered could enqueue until now. */
  onApplicationShutdown(): Promise<void> {
    return this.hooks.end(this);
  }

  async end(): Promise<void> {
    await this.stop();
    await this.runtime.dispatcher.stop(); // somebody's hook may have started it again
    await this.runtime.close();
  }

  private isStopping(): boolean {
    return this.stopping !== undefined;
  }

  private stop(): Promise<void> {
    return (this.stopping ??= this.stopAll());
  }

  private async stopAll(): Promise<void> {
    const { dispatcher, options, clock, events, listener } = this.runtime;
    this.cron?.stop();
    this.schedule?.clear();
    this.cleaning.abort();
    const forget = onSecondSignal(() => dispatcher.hurry());
    const all = Promise.all([dispatcher.stop(), listener?.stop(), ...this.loops.map(({ loop }) => loop.stop())]);
    await within(
      clock,
      options.shutdownTimeout + STOP_MARGIN,
      all.then(() => {}),
    ).finally(forget);
    if (options.relay === true) warnOfLateEnqueues(events, clock);
  }

  private buildLoops(): void {
    const { options, events, unlocker, cleaner, maintainer, dispatcher } = this.runtime;
    const { every } = options.retention;
    const prefix = `outbox:${options.name}`;
    const hint = new ShutdownHooksHint(events);
    const unlock = this.loop('unlock', options.lease / 2, () => {
      hint.look();
      return unlocker.runOnce();
    });
    const clean = this.loop('clean', typeof every === 'number' ? every : WHEN_NUDGED, () =>
      cleaner.runOnce(undefined, { signal: this.cleaning.signal }),
    );
    this.schedule = new Schedule(this.modules);
    if (options.partitions.period !== undefined) {
      const work = (): Promise<unknown> => maintainer.runOnce({}, { signal: this.cleaning.signal });
      this.schedule.addInterval(`${prefix}:partitions`, this.loop('partitions', PARTITIONS_EVERY, work));
    }
    this.schedule.addInterval(`${prefix}:dispatch`, dispatcher);
    this.schedule.addInterval(`${prefix}:unlock`, unlock);
    if (typeof every === 'number') this.schedule.addInterval(`${prefix}:clean`, clean);
    else
      this.cron = this.schedule.addCronJob(
        `${prefix}:clean`,
        createCronJob(every.cron, () => clean.nudge(), every.CronJob),
      );
  }

  private loop(operation: OutboxOperation, interval: number, work: () => Promise<unknown>): Loop {
    const { clock, events } = this.runtime;
    const loop = new Loop(
      clock,
      () => work().then(() => interval),
      (error) => {
        events.emit('error', { operation, error, retryIn: interval === WHEN_NUDGED ? null : interval });
        return interval;
      },
    );
    this.loops.push({ loop, firstIn: interval === WHEN_NUDGED ? WHEN_NUDGED : 0 });
    return loop;
  }
}

/** Says once, when everybody had the time to call `enableShutdownHooks()`, that nobody did. */
class ShutdownHooksHint {
  private looks = 0;

  constructor(private readonly events: OutboxRuntime['events']) {}

  look(): void {
    this.looks++;
    if (this.looks !== 2 || process.listenerCount('SIGTERM') > 0) return;
    const text = 'nobody listens for SIGTERM: a stop is a crash, and its messages wait for the lease to expire';
    this.events.emit('warning', { text: `${text}; call app.enableShutdownHooks()` });
  }
}
