import { Inject } from '@nestjs/common';
import { resolveFactory, row } from '../options/factory-options.js';
import { aFunction, anything } from '../options/rules.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { messageAmong, type InboxMessage } from './identity.js';
import { concurrency, consumerName } from './inbox.options.js';
import type { InboxService, OnceOptions } from './inbox.service.js';
import { DEFAULT_NAME, getInboxToken } from './inbox.tokens.js';

export interface IdempotentOptions extends Pick<OnceOptions, 'onConcurrent'> {
  /** Names the effect in the table. Default `Class.method`: set it before you rename either, and where a bundler does. */
  readonly consumer?: string;
  /** Finds the message among the arguments of the handler. Default: the first one that is a message, see {@link InboxMessage}. */
  readonly message?: (...args: never[]) => InboxMessage;
  /** `true`, or a function of the arguments that returns the sequence: see `OnceOptions.latest`. */
  readonly latest?: true | ((...args: never[]) => number | bigint | string);
  /** Which inbox. Default: the default one. */
  readonly inbox?: string;
}

const ROWS = {
  consumer: row(consumerName),
  message: row(aFunction),
  latest: row({
    ...aFunction,
    allowed: 'true, or a function',
    parse: (value) => (value === true ? true : aFunction.parse(value)),
  }),
  inbox: row(anything),
  onConcurrent: row(concurrency),
};

/**
 * The handler runs once for each message, in a transaction that is around it: `inbox.tx` is that transaction, and `enqueue` needs none.
 * It joins the ambient one, or begins one. One of its parameters must be the message: `@Received()`, `@Ctx()`, the second argument of
 * `@OnOutboxEvent`, what `@RabbitSubscribe` gives. A repetition resolves to `undefined` without a call.
 *
 *     @EventPattern('order.placed')
 *     @Idempotent()
 *     async bill(@Payload() order: Order, @Received() message: ReceivedMessage) { await this.inbox.tx.save(…); }
 *
 * A handler that acknowledges its message itself would do so before the commit, and not at all for a repetition: use `inbox.once` in it.
 *
 * @throws OutboxConfigurationError `INVALID_OPTIONS`
 */
export function Idempotent(options: IdempotentOptions = {}): MethodDecorator {
  return (target, name, descriptor: PropertyDescriptor | undefined) => {
    const place = `${String(target?.constructor?.name)}.${String(name)}`;
    const method = descriptor?.value as ((...args: unknown[]) => unknown) | undefined;
    if (typeof method !== 'function')
      throw new OutboxConfigurationError('INVALID_OPTIONS', `@Idempotent on ${place}: it is for methods.`, {
        hint: 'Standard decorators cannot inject: set experimentalDecorators, as Nest needs it.',
      });
    const { consumer, onConcurrent, inbox = DEFAULT_NAME, latest } = options;
    resolveFactory({ factory: `@Idempotent on ${place}`, rows: ROWS }, { ...options, consumer: consumer ?? place });
    const property = `inboxOf(${inbox})`;
    Inject(getInboxToken(inbox))(target, property);
    const called = async function (
      this: Record<string, InboxService | undefined>,
      ...args: unknown[]
    ): Promise<unknown> {
      const service = this[property];
      if (service === undefined) throw notInjected(place);
      const once: OnceOptions = {
        consumer: consumer ?? ownName(service, this.constructor, name, called),
        ...(onConcurrent && { onConcurrent }),
        ...(latest && { latest: latest === true ? true : latest(...(args as never[])) }),
      };
      const message = options.message?.(...(args as never[])) ?? messageAmong(args);
      if (message === undefined) throw noMessage(place);
      const outcome = await service.once(message, once, () => method.apply(this, args));
      return outcome.status === 'handled' ? outcome.result : undefined;
    };
    // Decorators above and below this one leave their marks on the function.
    for (const key of Reflect.getMetadataKeys(method))
      Reflect.defineMetadata(key, Reflect.getMetadata(key, method), called);
    for (const key of Reflect.ownKeys(method)) {
      const own = Object.getOwnPropertyDescriptor(method, key) as PropertyDescriptor;
      if (key === 'name' || key === 'length' || typeof key === 'symbol') Object.defineProperty(called, key, own);
    }
    (descriptor as PropertyDescriptor).value = called;
  };
}

/** Of each inbox, who has a name that nobody chose. */
const OWNERS = new WeakMap<InboxService, Map<string, { readonly type: unknown; readonly method: unknown }>>();

/** By the class of the instance: classes that inherit a handler have an effect each. @throws OutboxConfigurationError */
function ownName(inbox: InboxService, type: Function, method: string | symbol, called: unknown): string {
  const consumer = `${type.name}.${String(method)}`;
  const owners = OWNERS.get(inbox) ?? new Map<string, { readonly type: unknown; readonly method: unknown }>();
  OWNERS.set(inbox, owners);
  const owner = owners.get(consumer) ?? { type, method: called };
  owners.set(consumer, owner);
  if (owner.type === type && owner.method === called) return consumer;
  throw new OutboxConfigurationError('INVALID_OPTIONS', `@Idempotent: two handlers are called ${consumer}.`, {
    hint: 'Each would take the messages of the other for handled: give one of them a consumer of its own.',
  });
}

const notInjected = (place: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', `@Idempotent on ${place}: its instance has no inbox.`, {
    hint: 'Let Nest make it, from its class: what new or useFactory made has nothing injected into properties.',
  });
const noMessage = (place: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', `@Idempotent on ${place}: no argument is a message of an outbox.`, {
    hint: 'Add a parameter with @Received() or @Ctx(), or give message: (…args) => id.',
  });
