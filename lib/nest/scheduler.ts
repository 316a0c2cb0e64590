import type { ModulesContainer } from '@nestjs/core';

/** What we use of the SchedulerRegistry of @nestjs/schedule. */
interface SchedulerRegistry {
  addInterval(name: string, handle: unknown): void;
  deleteInterval(name: string): void;
  addCronJob(name: string, job: unknown): void;
  deleteCronJob(name: string): void;
}

/**
 * Shows our loops in Nest's SchedulerRegistry, for people and tools that list it. The handles are ours: deleting one
 * there stops nothing. Found by its shape, so that @nestjs/schedule stays optional.
 */
export class Schedule {
  private readonly registry: SchedulerRegistry | undefined;
  private readonly removals: (() => void)[] = [];

  constructor(modules: ModulesContainer) {
    this.registry = find(modules);
  }

  addInterval(name: string, handle: object): void {
    this.registry?.addInterval(name, handle);
    this.removals.push(() => this.registry?.deleteInterval(name));
  }

  /** @returns the job */
  addCronJob<T extends object>(name: string, job: T): T {
    this.registry?.addCronJob(name, job);
    this.removals.push(() => this.registry?.deleteCronJob(name));
    return job;
  }

  clear(): void {
    for (const remove of this.removals.splice(0)) {
      try {
        remove();
      } catch {
        // Somebody removed it before us: what we want.
      }
    }
  }
}

function find(modules: ModulesContainer): SchedulerRegistry | undefined {
  for (const { providers } of modules.values()) {
    for (const [token, { instance }] of providers) {
      const candidate = instance as Partial<SchedulerRegistry> | null | undefined;
      const named = typeof token === 'function' && token.name === 'SchedulerRegistry';
      if (named && typeof candidate?.addInterval === 'function') return candidate as SchedulerRegistry;
    }
  }
  return undefined;
}
