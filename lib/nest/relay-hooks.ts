import { Module, type OnApplicationBootstrap, type OnModuleDestroy, type Provider } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

/** Nearer than the root module of the application, whose distance is 1: Nest knows no negative one. */
const NEAREST = -1;

/** What is started when everything else has been, and stopped before anything else is. */
export interface Started {
  start(): Promise<void>;
  beforeDestroy(): Promise<void>;
}

/** Has no other task than to have a place of its own in the order of hooks. */
@Module({})
export class OutboxRelayModule {}

/**
 * The start and the stop of a relay. Nest bootstraps the farthest module first and destroys it last, and a global one, as
 * ours is by default, is the farthest: a relay in its hooks would call handlers whose modules are not ready yet, or not
 * any more. Its other hooks stay there: what others enqueue while they are destroyed is still stored.
 */
export class RelayHooks implements OnApplicationBootstrap, OnModuleDestroy {
  /** @internal */ relay: Started | undefined;

  async onApplicationBootstrap(): Promise<void> {
    await this.relay?.start();
  }
  async onModuleDestroy(): Promise<void> {
    await this.relay?.beforeDestroy();
  }
}

/** Made before the first hook of any module: Nest sorts them there, once. */
export function relayHooksProvider(token: string): Provider {
  return {
    provide: token,
    inject: [ModulesContainer],
    useFactory: (modules: ModulesContainer) => {
      for (const module of modules.values()) if (module.providers.has(token)) module.distance = NEAREST;
      return new RelayHooks();
    },
  };
}
