import {
  Controller,
  Injectable,
  Module,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  ParseIntPipe,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, BaseExceptionFilter, LazyModuleLoader } from '@nestjs/core';
import { inProcess, OnOutboxEvent, OutboxDispatcher, OutboxModule, OutboxService } from '../../lib/index.js';
import { gate } from '../support/transport-relay.js';
import { describeWith } from '../support/services.js';
import { build, failure, OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

class Nothing {
  canActivate = (): boolean => false;
  intercept = (): never => {
    throw new Error('called');
  };
}

describeWith('postgres', 'The search for handlers', () => {
  const used = useApplications();
  const { applications } = used;
  let prefixes = 0;
  const application = (providers: any[], controllers: Type[] = []) => {
    @Module({ providers, controllers })
    class Feature {}
    const database = { setup: 'create' as const, prefix: `s${++prefixes}_` };
    const options = quiet({ relay: 'manual', transports: { default: inProcess() }, database });
    return build([typeOrm(used.database), OutboxModule.forRoot(options), Feature]);
  };

  it('L5: finds those of a module that was loaded later, when they are made and not before', async () => {
    const calls: string[] = [];
    const connected = gate();
    @Injectable()
    class Early {
      @OnOutboxEvent(OrderPlaced)
      on({ orderId }: OrderPlaced): void {
        calls.push(`early ${orderId}`);
      }
    }
    @Injectable()
    class Late {
      ready = false;
      @OnOutboxEvent(OrderPlaced)
      on({ orderId }: OrderPlaced): void {
        calls.push(`late ${orderId} ${this.ready}`);
      }
    }
    const made = {
      provide: Late,
      useFactory: () => connected.opened.then(() => Object.assign(new Late(), { ready: true })),
    };
    @Module({ providers: [made] })
    class LazyModule {}
    const app = await applications.start(application([Early]));
    const send = async (id: string): Promise<void> => {
      await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced(id));
      await app.get(OutboxDispatcher).drain();
    };
    await send('before');
    const loading = app.get(LazyModuleLoader).load(() => LazyModule);
    await send('meanwhile');
    connected.open();
    await loading;
    await send('after');
    expect(calls).toEqual(['early before', 'early meanwhile', 'early after', 'late after true']);
  });

  it('L5: warns of a later one that cannot be called, and calls the others', async () => {
    const calls: string[] = [];
    @Injectable()
    class Twin {
      @OnOutboxEvent(OrderPlaced, { id: 'twin' })
      on(): void {
        calls.push('twin');
      }
    }
    @Injectable()
    class Other extends Twin {
      @OnOutboxEvent(OrderPlaced, { id: 'twin' })
      override on(): void {
        calls.push('other');
      }
    }
    @Injectable()
    class Good {
      @OnOutboxEvent(OrderPlaced)
      on(): void {
        calls.push('good');
      }
    }
    @Module({ providers: [Other, Good] })
    class LazyModule {}
    const app = await applications.start(application([Twin]));
    const warnings: string[] = [];
    app.get(OutboxService).events.on('warning', ({ text }) => warnings.push(text));
    await app.get(LazyModuleLoader).load(() => LazyModule);
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await app.get(OutboxDispatcher).drain();
    expect(calls.sort()).toEqual(['good', 'twin']);
    await until(() => warnings.length > 0);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^a handler that was loaded later is not called: .*id 'twin': one in Feature, one in LazyModule/,
      ),
    ]);
  });

  it('L5: finds those that a factory returns in an array', async () => {
    const calls: string[] = [];
    const handling = (name: string): object => {
      class Handler {
        @OnOutboxEvent(OrderPlaced, { id: name })
        on(): void {
          calls.push(name);
        }
      }
      return new Handler();
    };
    const app = await applications.start(
      application([{ provide: 'HANDLERS', useFactory: () => [handling('one'), handling('two'), null, 3] }]),
    );
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await app.get(OutboxDispatcher).drain();
    expect(calls.sort()).toEqual(['one', 'two']);
  });

  it.each([Scope.REQUEST, Scope.TRANSIENT])('L5: names one that a factory makes anew, scope %i', async (scope) => {
    class Mailer {
      @OnOutboxEvent(OrderPlaced)
      send(): void {}
    }
    const made = { provide: Mailer, scope, inject: ['NAME'], useFactory: () => new Mailer() };
    expect(await failure(application([made, { provide: 'NAME', useValue: 1 }]))).toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringContaining('Mailer.send handles outbox events, but its provider is not a singleton.'),
    });
  });

  it('L6: calls them without what is global: a guard that refuses, an interceptor that throws, a filter', async () => {
    const calls: string[] = [];
    class Handler {
      @OnOutboxEvent(OrderPlaced)
      on({ orderId }: OrderPlaced): void {
        calls.push(orderId);
      }
    }
    const global = [APP_GUARD, APP_INTERCEPTOR, APP_FILTER].map((provide) => ({ provide, useClass: Nothing }));
    const app = await applications.start(application([Handler, ...global]));
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await app.get(OutboxDispatcher).drain();
    expect(calls).toEqual(['1']);
  });

  const enhancers: [string, ClassDecorator & MethodDecorator][] = [
    ['@UseGuards', UseGuards(Nothing)],
    ['@UseInterceptors', UseInterceptors(Nothing)],
    ['@UsePipes', UsePipes(ParseIntPipe)],
    ['@UseFilters', UseFilters(BaseExceptionFilter)],
  ];
  it.each(enhancers)('L6: refuses a handler with %s, on the method or on its class', async (name, decorator) => {
    class OnMethod {
      @decorator
      @OnOutboxEvent(OrderPlaced)
      on(): void {}
    }
    @decorator
    @Controller()
    class OnClass {
      @OnOutboxEvent(OrderPlaced)
      on(): void {}
    }
    class Inherits extends OnClass {}
    for (const [providers, controllers, of] of [
      [[OnMethod], [], 'OnMethod'],
      [[], [OnClass], 'OnClass'],
      [[Inherits], [], 'Inherits'],
    ] as const) {
      expect(await failure(application([...providers], [...controllers]))).toMatchObject({
        code: 'INVALID_OPTIONS',
        message: expect.stringContaining(`${of}.on handles outbox events, and Nest applies ${name} to requests only.`),
      });
    }
  });
});
