import { Injectable, Module, type Type } from '@nestjs/common';
import {
  inProcess,
  OnOutboxEvent,
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { build, CollectingTransport, failure, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

@OutboxEvent({ type: 'elsewhere', transport: 'broker' })
class Elsewhere {}

/** As `@Transactional()` of typeorm-transactional does, and many that time, log or retry. */
function wrapped(_prototype: object, _name: string, descriptor: PropertyDescriptor): void {
  const original = descriptor.value as (...args: unknown[]) => unknown;
  descriptor.value = function (this: unknown, ...args: unknown[]): unknown {
    return original.apply(this, args);
  };
}

describeWith('postgres', '@OnOutboxEvent at start', () => {
  const used = useApplications();
  const { applications } = used;

  const local = (options: Partial<OutboxOptions> = {}): OutboxOptions =>
    quiet({ relay: 'manual', transports: { default: inProcess() }, ...options });
  const refused = (providers: any[], options: OutboxOptions, ...modules: any[]) =>
    failure(build([typeOrm(used.database), OutboxModule.forRoot(options), ...modules], providers));
  const twice = (): OutboxOptions =>
    local({ transports: { broker: new CollectingTransport(), local: inProcess() }, defaultTransport: 'local' });

  it('refuses handlers that no event reaches, with the line to add', async () => {
    @Injectable()
    class Lost {
      @OnOutboxEvent(Elsewhere)
      handle(): void {}
    }
    const error = await refused([Lost], twice());
    expect(error).toMatchObject({ code: 'HANDLER_NOT_ROUTED' });
    expect(error.message).toBe(
      "Lost.handle handles 'elsewhere', which goes to 'broker' and to no inProcess() transport. " +
        "Add `transport: ['broker', 'local']` to @OutboxEvent of Elsewhere.",
    );
    @Injectable()
    class Plain {
      @OnOutboxEvent({ type: 'plain' })
      handle(): void {}
    }
    expect((await refused([Plain], quiet({ relay: 'manual' }))).message).toBe(
      "Plain.handle handles 'plain', but no transport is inProcess(). Add `local: inProcess()` to the transports of OutboxModule.",
    );
    expect(
      (await refused([Lost], quiet({ relay: 'manual', transports: { broker: new CollectingTransport() } }))).message,
    ).toContain("Add `local: inProcess()` to the transports of OutboxModule, and add `transport: ['broker', 'local']`");
  });

  it('refuses a class without @OutboxEvent, and one that is provided twice', async () => {
    class Undecorated {}
    @Injectable()
    class Wrong {
      @OnOutboxEvent(Undecorated)
      handle(): void {}
    }
    expect(await refused([Wrong], local())).toMatchObject({ code: 'UNKNOWN_EVENT' });
    @Injectable()
    class Twice {
      @OnOutboxEvent(OrderPlaced)
      handle(): void {}
    }
    @Module({ providers: [Twice] })
    class Other {}
    expect((await refused([Twice], local(), Other)).message).toContain(
      "Two handlers of 'order.placed' have the id 'Twice.handle'",
    );
  });

  it('refuses two handlers of one id whose versions overlap: one would take the other for itself', async () => {
    const handling = (version?: number): Type => {
      @Injectable()
      class Mailer {
        @OnOutboxEvent({ type: 'plain', ...(version === undefined ? {} : { version }) })
        send(): void {}
      }
      return Mailer;
    };
    for (const versions of [
      [1, undefined],
      [undefined, 1],
    ]) {
      expect((await refused(versions.map(handling), local())).message).toContain(
        "Two handlers of 'plain' have the id 'Mailer.send'",
      );
    }
    await applications.start(
      build([typeOrm(used.database), OutboxModule.forRoot(local())], [handling(1), handling(2)]),
    );
  });

  it('finds a method whose function another decorator replaced, above or below, and one that a mixin took over', async () => {
    const calls: string[] = [];
    class Stock {
      @wrapped
      @OnOutboxEvent(OrderPlaced)
      above(): void {
        calls.push('above');
      }
      @OnOutboxEvent(OrderPlaced)
      @wrapped
      below(): void {
        calls.push('below');
      }
      @OnOutboxEvent(OrderPlaced)
      @wrapped
      @OnOutboxEvent({ type: 'plain' })
      between(): void {
        calls.push('between');
      }
    }
    class Overriding extends Stock {
      override above(): void {
        calls.push('overridden');
      }
    }
    class Mixed {}
    const plain = { type: 'plain', payload: 1 };
    Object.defineProperty(
      Mixed.prototype,
      'taken',
      Object.getOwnPropertyDescriptor(Stock.prototype, 'below') as object,
    );
    const deliver = async (provider: Type, ...more: object[]): Promise<string[]> => {
      calls.length = 0;
      const app = await applications.start(build([typeOrm(used.database), OutboxModule.forRoot(local())], [provider]));
      for (const message of [new OrderPlaced('1'), ...more]) {
        await app.get(OutboxService).enqueueOutsideTransaction(message);
      }
      await app.get(OutboxDispatcher).drain();
      await applications.close();
      return calls.sort();
    };
    expect(await deliver(Stock, plain)).toEqual(['above', 'below', 'between', 'between']);
    expect(await deliver(Overriding, plain)).toEqual(['below', 'between', 'between']);
    expect(await deliver(Mixed)).toEqual(['below']);
  });

  it('counts an alias, an inherited method and a factory once', async () => {
    const calls: string[] = [];
    class Base {
      @OnOutboxEvent(OrderPlaced)
      handle(): void {
        calls.push(this.constructor.name);
      }
    }
    @Injectable()
    class Derived extends Base {}
    class Made extends Base {}
    const providers = [
      Derived,
      { provide: 'alias', useExisting: Derived },
      { provide: 'made', useFactory: () => new Made() },
    ];
    const app = await applications.start(build([typeOrm(used.database), OutboxModule.forRoot(local())], providers));
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await app.get(OutboxDispatcher).drain();
    expect(calls.sort()).toEqual(['Derived', 'Made']);
  });
});
