import { Inject } from '@nestjs/common';
import { resolveFactory, row } from '../options/factory-options.js';
import { aFunction, anything, oneOf, orFunction } from '../options/rules.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { isMessage, type InboxMessage } from './identity.js';
import { concurrency, consumerName } from './inbox.options.js';
import type { InboxService } from './inbox.service.js';
import { getInboxToken } from './inbox.tokens.js';
import type { OnceOptions } from './once.js';

export interface IdempotentOptions extends Pick<OnceOptions, 'onConcurrent'> {
  /** Names the effect in the table. Default `Class.method`, of a subclass `Subclass:Class.method`: set it before you rename any. */
  readonly consumer?: string;
  /** Finds the message among the arguments of the handler. Default: the first one that is one of {@link InboxMessage}, and no text. */
  readonly message?: (...args: never[]) => InboxMessage;
  /** `true`, or a function of the arguments that returns the sequence: see `OnceOptions.latest`. */
  readonly latest?: true | ((...args: never[]) => number | bigint | string);
  /** Which inbox. Default: the default one. */
  readonly inbox?: string;
}

const ROWS = {
  consumer: row(consumerName),
  message: row(aFunction),
  latest: row(orFunction(oneOf(true))),
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
      throw invalid(` on ${place}: it is for methods`, 'Set experimentalDecorators: standard ones cannot inject.');
    resolveFactory(
      { factory: `@Idempotent on ${place}`, rows: ROWS },
      { ...options, consumer: options.consumer ?? place },
    );
    const { onConcurrent, inbox, latest } = options;
    const consumerOf = ({ constructor }: object): string =>
      options.consumer ?? (constructor === target.constructor ? place : `${constructor.name}:${place}`);
    const property = `inbox of ${place}`;
    Inject(getInboxToken(inbox))(target, property);
    // Nest sets it on each instance: at the start, but for providers of a request.
    Object.defineProperty(target, property, {
      configurable: true,
      get: () => undefined,
      set(this: object, service: InboxService) {
        Object.defineProperty(this, property, { value: service, writable: true, configurable: true });
        if (options.consumer === undefined) refuseTwin(service, consumerOf(this), this.constructor);
      },
    });
    const called = async function (this: Record<string, InboxService>, ...args: unknown[]): Promise<unknown> {
      const service = this[property];
      if (!service) throw invalid(` on ${place}: Nest did not make it, so it has no inbox`, 'Provide the class.');
      const once: OnceOptions = {
        consumer: consumerOf(this),
        ...(onConcurrent && { onConcurrent }),
        ...(latest && { latest: latest === true ? true : latest(...(args as never[])) }),
      };
      const message = options.message?.(...(args as never[])) ?? args.find(isMessage);
      if (message === undefined) throw invalid(` on ${place}: no argument is a message of an outbox`, NO_MESSAGE);
      const outcome = await service.once(message, once, () => method.apply(this, args));
      return outcome.status === 'handled' ? outcome.result : undefined;
    };
    copyMarks(method, called);
    (descriptor as PropertyDescriptor).value = called;
  };
}

/** Decorators above and below this one leave them on the function. */
function copyMarks(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  for (const key of ['name', 'length', ...Object.getOwnPropertySymbols(from)])
    Object.defineProperty(to, key, Object.getOwnPropertyDescriptor(from, key) as PropertyDescriptor);
}

/** Which class has a consumer's name that nobody gave. */
const ownersOf = new WeakMap<InboxService, Map<string, object>>();
/** Of two classes of one name the second would find each message handled. */
function refuseTwin(service: InboxService, consumer: string, owner: object): void {
  const owners = ownersOf.get(service) ?? new Map<string, object>();
  ownersOf.set(service, owners);
  if ((owners.get(consumer) ?? owner) !== owner)
    throw invalid(`: two classes are the consumer '${consumer}'`, 'Give both a name that stays: consumer.');
  owners.set(consumer, owner);
}

const invalid = (problem: string, hint: string): Error =>
  new OutboxConfigurationError('INVALID_OPTIONS', `@Idempotent${problem}.`, { hint });
const NO_MESSAGE = 'Add a parameter with @Received() or @Ctx(), or give message: (…args) => id.';
