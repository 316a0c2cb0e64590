import { channel } from 'node:diagnostics_channel';
import { Inject, Injectable } from '@nestjs/common';
import { OutboxService } from '../enqueue/outbox.service.js';
import type { OutboxEventMap, OutboxEventName } from '../observe/events.js';

/** What is published on the channel `nestjs-outbox:<name>`. */
export interface OutboxChannelMessage<K extends OutboxEventName = OutboxEventName> {
  /** Name of the outbox. */
  readonly outbox: string;
  readonly event: OutboxEventMap[K];
}

/**
 * Publishes the events of the outbox on channels of `node:diagnostics_channel`, for tools that watch an application from outside:
 * `subscribe('nestjs-outbox:published', (message) => …)`. Where nobody subscribed, an event costs one look. As a provider:
 * `OutboxChannels`; of a named outbox with `inject: [getOutboxToken(name)]`.
 */
@Injectable()
export class OutboxChannels {
  constructor(@Inject(OutboxService) outbox: OutboxService) {
    const { name } = outbox.runtime.options;
    for (const event of Object.keys(NAMES) as OutboxEventName[]) forward(outbox, name, event);
  }
}

function forward<K extends OutboxEventName>({ events }: OutboxService, outbox: string, name: K): void {
  const told = channel(`nestjs-outbox:${name}`);
  events.on(name, (event) => {
    if (told.hasSubscribers) told.publish({ outbox, event } satisfies OutboxChannelMessage<K>);
  });
}

const NAMES: Readonly<Record<OutboxEventName, true>> = {
  enqueued: true,
  deduplicated: true,
  published: true,
  retried: true,
  dead: true,
  failed: true,
  connected: true,
  firstPublished: true,
  circuitOpened: true,
  circuitClosed: true,
  destinationAway: true,
  destinationBack: true,
  paused: true,
  resumed: true,
  leasesAcquired: true,
  leasesLost: true,
  leasesHeld: true,
  leasesExpired: true,
  snapshotHeld: true,
  snapshotReleased: true,
  cleaned: true,
  partitionChange: true,
  partitionsMaintained: true,
  started: true,
  stopped: true,
  error: true,
  warning: true,
};
