import type { OutboxMessage } from '../../message.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';

export interface InProcessHandler {
  /** Stable across restarts. */
  readonly id: string;
  readonly type: string;
  /** `undefined`: every version. */
  readonly version: number | undefined;
  call(message: OutboxMessage): unknown;
}

/** The handlers of one application, by the type of their event. Filled before the relay starts. */
export class InProcessHandlers {
  /** @internal */ readonly byType = new Map<string, InProcessHandler[]>();

  add(handler: InProcessHandler): void {
    const all = this.byType.get(handler.type) ?? [];
    if (all.some((other) => other.id === handler.id && overlap(other.version, handler.version))) {
      throw new OutboxConfigurationError(
        'INVALID_OPTIONS',
        `Two handlers of '${handler.type}' have the id '${handler.id}'.`,
        {
          hint: 'Provide the class in one module only, or give one of them another id: @OnOutboxEvent(Event, { id }).',
        },
      );
    }
    this.byType.set(handler.type, [...all, handler]);
  }

  of(type: string, version: number): readonly InProcessHandler[] {
    return (this.byType.get(type) ?? []).filter(
      (handler) => handler.version === undefined || handler.version === version,
    );
  }
}

/** What ran, and what runs, is known by the id alone: of two handlers of one message the second would never be called. */
function overlap(one: number | undefined, other: number | undefined): boolean {
  return one === other || one === undefined || other === undefined;
}
