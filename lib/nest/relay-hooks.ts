import { Module, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { misconfigured } from '../outbox.errors.js';
import { abandon } from './instances.js';

/** Nearer than the root module of the application, whose distance is 1: Nest knows no negative one. */
const NEAREST = -1;
/** Of a module that Nest has not found when it looked at all modules of the application. */
const NONE = 0;

/** What is started when everything else has been, and stopped before anything else is. */
export interface Started {
  start(): Promise<void>;
  beforeDestroy(): Promise<void>;
  end(): Promise<void>;
}

/**
 * The start and the stop of the relays of one application, side by side. Nest bootstraps the farthest module first and
 * destroys it last, and a global one, as ours is by default, is the farthest: a relay in its hooks would call handlers whose
 * modules are not ready yet, or not any more. Its other hooks stay there: what others enqueue while they are destroyed is
 * still stored.
 */
export class RelayHooks implements OnApplicationBootstrap, OnModuleDestroy {
  readonly all = new Set<Started>();
  private readonly ends = new Map<Started, Promise<void>>();

  constructor(
    private readonly application: object,
    /** Nest has chosen the modules whose hooks it calls. */ public isLate: boolean,
  ) {}

  refuseLate(name: string, declaredAt: string): void {
    if (!this.isLate) return;
    misconfigured(
      `The outbox '${name}' was loaded when its application had been started: ${declaredAt}. Nest calls no hook of it, so its relay would neither start nor stop.`,
      'Import OutboxModule.forRoot() in the root module. A module that LazyModuleLoader loads can inject its OutboxService.',
      'NOT_STARTED',
    );
  }

  /** Ends with the first that fails, and with it all of them. */
  async onApplicationBootstrap(): Promise<void> {
    try {
      await Promise.all([...this.all].map((each) => each.start()));
    } catch (error) {
      await abandon(this.application, 'all');
      throw error;
    }
  }
  async onModuleDestroy(): Promise<void> {
    await allOf([...this.all].map((each) => each.beforeDestroy()));
  }

  /** Each ends when its turn comes; the last one's turn waits for all. */
  async end(one: Started): Promise<void> {
    const end = one.end();
    end.catch(() => undefined); // thrown by the last one's turn
    this.ends.set(one, end);
    if (this.ends.size === this.all.size) await allOf([...this.ends.values()]);
  }
}

/** All of them to their end, also when one fails. */
async function allOf(work: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(work);
  await Promise.all(work);
}

/** Has no other task than to have a place of its own in the order of hooks. One for each application. */
@Module({
  providers: [
    {
      provide: RelayHooks,
      inject: [ModulesContainer],
      /** Made before the first hook of any module: Nest sorts them there, once. */
      useFactory: (modules: ModulesContainer) => {
        const ours = [...modules.values()].find((module) => module.providers.has(RelayHooks)) as { distance: number };
        const hooks = new RelayHooks(modules, ours.distance === NONE);
        ours.distance = NEAREST;
        return hooks;
      },
    },
  ],
  exports: [RelayHooks],
})
export class OutboxRelayModule {}
