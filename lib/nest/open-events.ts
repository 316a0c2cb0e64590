import { Logger, type LoggerService } from '@nestjs/common';
import type { OutboxEventMap, OutboxHooks } from '../observe/events.js';
import { errorText } from '../observe/redact/error-text.js';
import { logEvents, write } from '../observe/log-events.js';
import { LogLine } from '../observe/log-line.js';
import { EventStream } from '../observe/event-stream.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Clock } from '../time/clock.js';
import { copiesText } from './instances.js';
import type { OutboxOverrides } from './overrides.js';

/** The event stream of one outbox, which its logger hears. */
export function openEvents(options: ResolvedOptions, clock: Clock): EventStream {
  const context = options.name === 'default' ? 'Outbox' : `Outbox(${options.name})`;
  const logger: LoggerService = options.logger ?? new Logger(context);
  const events = new EventStream(clock, (name, error) => {
    if (options.logLevel === 'silent') return;
    write(logger, 'error', new LogLine('listener', `a listener of '${name}' failed`, { error: errorText(error) }));
  });
  logEvents(events, logger, options.logLevel, clock);
  const text = copiesText();
  if (text !== undefined) events.emit('warning', { text });
  return events;
}

/** Tests learn of a commit at once, not when the event stream gets to it. */
export function hooksFor(events: EventStream, overrides: OutboxOverrides | null): OutboxHooks {
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
