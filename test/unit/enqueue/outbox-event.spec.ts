import type { OutboxEventOptions, OnOutboxEventOptions } from '../../../lib/index.js';
import { EventRegistry } from '../../../lib/enqueue/events/event-registry.js';
import { eventMetadata, type EventClass } from '../../../lib/enqueue/events/event-metadata.js';
import { twinEvents } from '../../../lib/enqueue/events/event-twins.js';
import { OutboxEvent } from '../../../lib/enqueue/events/outbox-event.decorator.js';
import { OnOutboxEvent } from '../../../lib/enqueue/events/on-outbox-event.decorator.js';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { messageRules, refusal } from '../../support/enqueue.js';

@OutboxEvent({ type: 'parent', transport: ['default'], revive: (payload) => Object.assign(new Parent(), payload) })
class Parent {
  readonly id = '1';
}
class Child extends Parent {}
@OutboxEvent({ type: 'decorated-child', key: (e) => e.id })
class DecoratedChild extends Parent {}

describe('@OutboxEvent', () => {
  it('leaves checked metadata under a symbol that every copy of the package shares', () => {
    const metadata = (Parent as unknown as Record<symbol, unknown>)[Symbol.for('nestjs-outbox:event')];
    expect(metadata).toMatchObject({
      type: 'parent',
      topic: 'parent',
      version: 1,
      key: undefined,
      transports: ['default'],
    });
    expect(Object.isFrozen(metadata)).toBe(true);
    expect(Object.keys(Parent)).toEqual([]);
    expect(eventMetadata(Parent)?.revive?.({ more: 1 })).toMatchObject({ id: '1', more: 1 });
  });

  it('is not inherited: an undecorated subclass names its parent', async () => {
    expect(eventMetadata(Child)).toBeUndefined();
    const { code, message } = await refusal(() => toMessage(new Child(), {}, messageRules()));
    expect(code).toBe('UNKNOWN_EVENT');
    expect(message).toBe(
      'Child extends Parent, but has no @OutboxEvent of its own. Decorate it too, with a type of its own.',
    );
    expect(toMessage(new DecoratedChild(), {}, messageRules())[0]).toMatchObject({ type: 'decorated-child', key: '1' });
  });

  it('an undecorated class is unknown', async () => {
    class Other {}
    const { code, message } = await refusal(() => toMessage(new Other(), {}, messageRules()));
    expect([code, message]).toEqual([
      'UNKNOWN_EVENT',
      'Other has no @OutboxEvent. Decorate the class, or enqueue a plain message { type, topic, key, payload }.',
    ]);
    expect((await refusal(() => toMessage(new Map(), {}, messageRules()))).code).toBe('UNKNOWN_EVENT');
  });

  it.each<[unknown, RegExp]>([
    [{ type: '' }, /type is empty/],
    [{}, /type must be a string, not undefined\./],
    [{ type: 'x'.repeat(256) }, /type has 256 characters/],
    [{ type: 'x', topic: 'a\0' }, /topic contains a NUL/],
    [{ type: 'x', topic: undefined }, /topic is undefined; leave it out to publish to the type/],
    [{ type: 'x', keys: () => 'k' }, /keys is no option \(did you mean 'key'\?\)/],
    [{ type: 'x', key: 'id' }, /key must be a function/],
    [{ type: 'x', version: 0 }, /version must be a whole number from 1/],
    [{ type: 'x', version: '1' }, /version must be a whole number from 1/],
    [{ type: 'x', transport: {} }, /transport must be a name, or an array of names/],
    [{ type: 'x', onDead: 'stop' }, /onDead must be 'block' \| 'skip'/],
    [{ type: 'x', retry: { maxAttempts: 0 } }, /retry.maxAttempts must be/],
    [{ type: 'x', retry: { initial: '5 s' } }, /retry.initial must be a duration/],
    [{ type: 'x', retry: { initial: '2h' } }, /retry.initial must be a duration from 1ms to 1h/],
    [{ type: 'x', retry: { max: '100000000d' } }, /retry.max must be a duration from 1ms to 7d/],
    [{ type: 'x', retry: { maxAge: 0 } }, /retry.maxAge must be a duration from 1s to 3650d/],
    [{ type: 'x', retry: { maxAttempts: 1_000_001 } }, /retry.maxAttempts must be .* or null/],
    [{ type: 'x', retry: { maxAttemps: 5 } }, /retry.maxAttemps is no option \(did you mean 'maxAttempts'\?\)/],
    [{ type: 'x', retry: { backoff: () => 5 } }, /retry.backoff must be 'exponential' \| 'fixed'/],
    [{ type: 'x', retry: { jitter: 'half' } }, /retry.jitter must be 'full' \| 'equal' \| 'none'/],
    [{ type: 'x', retry: { onDead: 'skip' } }, /retry.onDead is no option/],
    [{ type: 'x', retry: { classify: 'dead' } }, /retry.classify must be a function/],
    [{ type: 'x', headers: null }, /headers must be an object, or a function/],
    [{ type: 1, version: 0 }, /type must be a string, not a number; version must be/],
    [undefined, /options are undefined; must be an object with 'type'\./],
  ])('%# is refused where the class is declared', async (options, expected) => {
    const { code, message } = await refusal(() => OutboxEvent(options as OutboxEventOptions<object>)(class Named {}));
    expect(code).toBe('INVALID_OPTIONS');
    expect(message).toMatch(/^@OutboxEvent on Named: /);
    expect(message).toMatch(expected);
  });

  it('twice on one class is refused', async () => {
    const { message } = await refusal(() => OutboxEvent({ type: 'again' })(Parent));
    expect(message).toMatch(/has an @OutboxEvent already/);
  });
});

describe('@OnOutboxEvent', () => {
  const on = (event: unknown, options?: unknown): void => {
    class Mailer {
      @OnOutboxEvent(event as EventClass, options as OnOutboxEventOptions)
      send(): void {}
    }
    void Mailer;
  };

  it.each<[unknown, unknown, RegExp]>([
    [undefined, undefined, /the event is undefined; must be a class with @OutboxEvent, or an object with 'type'\./],
    ['text', undefined, /the event is a text; must be a class/],
    [() => Parent, undefined, /the event is a function; must be a class/],
    [{}, undefined, /type must be a string, not undefined\./],
    [{ forwardRef: () => Parent }, undefined, /forwardRef is no option/],
    [{ type: '' }, undefined, /type is empty/],
    [{ type: 'x', version: '1' }, undefined, /version must be a whole number from 1 to 32767/],
    [{ typ: 'x' }, undefined, /typ is no option \(did you mean 'type'\?\)/],
    [Parent, { id: 7 }, /id must be a string, not a number/],
    [Parent, { ids: 'x' }, /ids is no option \(did you mean 'id'\?\)/],
    [Parent, 'mail', /options are a text; must be an object/],
  ])('%# is refused where the method is declared', async (event, options, expected) => {
    const { code, message } = await refusal(() => on(event, options));
    expect(code).toBe('INVALID_OPTIONS');
    expect(message).toMatch(/^@OnOutboxEvent on Mailer\.send: /);
    expect(message).toMatch(expected);
  });

  it('names the method of a class by standard decorators', async () => {
    const standard = OnOutboxEvent(undefined as unknown as EventClass) as (method: object, context: object) => void;
    expect((await refusal(() => standard(() => {}, { kind: 'method', name: 'send' }))).message).toMatch(
      /^@OnOutboxEvent on send: the event is undefined/,
    );
  });
});

describe('Both decorators', () => {
  it('name the circular import where it leaves nothing of an event', async () => {
    class Mailer {
      send(): void {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Mailer.prototype, 'send') as PropertyDescriptor;
    const on = (event: unknown) => () =>
      OnOutboxEvent(event as EventClass)(Mailer.prototype, 'send', descriptor as TypedPropertyDescriptor<() => void>);
    const declare = (options: unknown) => () => OutboxEvent(options as OutboxEventOptions<object>)(class Named {});
    for (const attempt of [on(undefined), on({ type: undefined }), declare(undefined), declare({ type: undefined })]) {
      expect((await refusal(attempt)).message).toContain(
        'Two files that import each other are the usual cause, also by way of a third (`index.ts`)',
      );
    }
    expect((await refusal(on({ type: '' }))).message).not.toContain('import');
  });
});

describe('Y2: two classes of one type and version', () => {
  const declare = (name: string, type: string): void =>
    OutboxEvent({ type, version: 7 })({ [name]: class {} }[name] as EventClass);
  const told = (type: string): string[] => twinEvents().filter((text) => text.includes(`'${type}'`));

  it('are told with both names; a class that was loaded again is none', () => {
    declare('Order', 'twin.none');
    declare('Order', 'twin.none');
    expect(told('twin.none')).toEqual([]);
    declare('Order', 'twin.two');
    declare('Purchase', 'twin.two');
    expect(told('twin.two')).toEqual([
      expect.stringMatching(/^Order and Purchase are both event 'twin\.two' version 7: .* refuses the other \(/),
    ]);
  });

  it('are kept in bounded number', () => {
    for (let n = 0; n < 50; n++) declare(`Order${n}`, 'twin.many');
    expect(told('twin.many')[0]?.split(' and ')).toHaveLength(8);
  });
});

describe('EventRegistry', () => {
  const declare = (name: string, type: string, version = 1): EventClass => {
    const eventClass = { [name]: class {} }[name] as EventClass;
    OutboxEvent({ type, version })(eventClass);
    return eventClass;
  };

  it('refuses a second class of one type and version, and says which two', async () => {
    const registry = new EventRegistry();
    registry.metadataOf(declare('First', 'same'));
    const second = declare('Second', 'same');
    const { code, message } = await refusal(() => registry.metadataOf(second));
    expect(code).toBe('DUPLICATE_EVENT_TYPE');
    expect(message).toMatch(/^First and Second are both event 'same' version 1/);
    expect((await refusal(() => registry.metadataOf(second))).code).toBe('DUPLICATE_EVENT_TYPE');
  });

  it('takes another version, a reloaded class, and the same class in another outbox', () => {
    const registry = new EventRegistry();
    const first = declare('Order', 'order');
    registry.metadataOf(first);
    registry.metadataOf(first);
    expect(registry.metadataOf(declare('OrderV2', 'order', 2)).version).toBe(2);
    expect(registry.metadataOf(declare('Order', 'order')).type).toBe('order');
    expect(new EventRegistry().metadataOf(first).type).toBe('order');
  });
});
