import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { OutboxHandlerContext } from '../../enqueue/events/on-outbox-event.decorator.js';

export interface InProcessHandler {
  /** Stable across restarts. */
  readonly id: string;
  readonly type: string;
  /** `undefined`: every version. */
  readonly version: number | undefined;
  /** The module that has its provider. */
  readonly module?: string;
  call(message: OutboxMessage, context: OutboxHandlerContext): unknown;
}

/** The handlers of one application, by the type of their event. Filled before the relay starts, and with modules that are loaded later. */
export class InProcessHandlers {
  private readonly byType = new Map<string, InProcessHandler[]>();
  private readonly sources: (() => void)[] = [];

  add(handler: InProcessHandler): void {
    const all = this.byType.get(handler.type) ?? [];
    const twin = all.find(({ id, version }) => id === handler.id && overlap(version, handler.version));
    if (twin !== undefined) throw duplicate(handler, twin);
    this.byType.set(handler.type, [...all, handler]);
  }

  /** @param look adds what came since. Called for each message, so it must cost next to nothing where nothing came. */
  addFrom(look: () => void): void {
    this.sources.push(look);
  }

  of(type: string, version: number): readonly InProcessHandler[] {
    for (const look of this.sources) look();
    return (this.byType.get(type) ?? []).filter((handler) => overlap(handler.version, version));
  }
}

/** What ran, and what runs, is known by the id alone: of two handlers of one message the second would never be called. */
export function overlap(one: number | undefined, other: number | undefined): boolean {
  return one === other || one === undefined || other === undefined;
}

function duplicate({ type, id, module }: InProcessHandler, twin: InProcessHandler): OutboxConfigurationError {
  const places = [twin.module, module].filter((name) => name !== undefined).map((name) => ` ${name}`);
  const where = places.length === 0 ? '' : `: one in${places.join(', one in')}`;
  return new OutboxConfigurationError('INVALID_OPTIONS', `Two handlers of '${type}' have the id '${id}'${where}.`, {
    hint: 'Provide the class in one module only. If these are two classes of one name (minifiers give such names, too), give one of them an id: @OnOutboxEvent(Event, { id }).',
  });
}
