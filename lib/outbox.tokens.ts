import { Inject } from '@nestjs/common';
import { OutboxAdmin } from './admin/outbox-admin.js';
import { OutboxDoctor } from './doctor/outbox-doctor.js';
import { OutboxUnlocker } from './relay/leases/unlocker.js';
import { OutboxCleaner } from './clean/cleaner.js';
import { OutboxPartitionMaintainer } from './partitions/maintainer.js';
import { OutboxDispatcher } from './relay/dispatcher.js';
import { OutboxService } from './enqueue/outbox.service.js';

export const DEFAULT_NAME = 'default';

/** Classes of an outbox that can be injected. */
export type OutboxPart =
  | typeof OutboxService
  | typeof OutboxAdmin
  | typeof OutboxDoctor
  | typeof OutboxDispatcher
  | typeof OutboxUnlocker
  | typeof OutboxCleaner
  | typeof OutboxPartitionMaintainer;
export type OutboxToken = OutboxPart | string;

/**
 * The token of an outbox, or of one of its parts: the class itself for the default outbox, a string for a named one.
 * `getOutboxToken('audit', OutboxDispatcher)`.
 */
export function getOutboxToken(name: string = DEFAULT_NAME, part: OutboxPart = OutboxService): OutboxToken {
  return name === DEFAULT_NAME ? part : `Outbox(${name}).${partName(part)}`;
}

/** Injects an outbox by name: `@InjectOutbox('audit') private readonly outbox: OutboxService`. */
export function InjectOutbox(name: string = DEFAULT_NAME, part?: OutboxPart): PropertyDecorator & ParameterDecorator {
  return Inject(getOutboxToken(name, part));
}

/** Minifiers rename classes; tokens must not follow. */
function partName(part: OutboxPart): string {
  if (part === OutboxAdmin) return 'admin';
  if (part === OutboxDoctor) return 'doctor';
  if (part === OutboxDispatcher) return 'dispatcher';
  if (part === OutboxUnlocker) return 'unlocker';
  if (part === OutboxPartitionMaintainer) return 'partitions';
  return part === OutboxCleaner ? 'cleaner' : 'service';
}

/** The options as given. */
export const optionsToken = (name: string): string => `Outbox(${name}).options`;
/** What finds the data layer of TypeORM. */
export const dataSourceToken = (name: string): string => `Outbox(${name}).dataSource`;
/** What `overrideOutbox` changes about them; `null` outside tests. */
export const overridesToken = (name: string): string => `Outbox(${name}).overrides`;
/** Everything that was built from them. */
export const runtimeToken = (name: string): string => `Outbox(${name}).runtime`;
/** Start and stop. */
export const lifecycleToken = (name: string): string => `Outbox(${name}).lifecycle`;
