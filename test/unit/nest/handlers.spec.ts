import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Controller,
  Injectable,
  Module,
  ParseIntPipe,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type ModuleMetadata,
  type Type,
} from '@nestjs/common';
import { BaseExceptionFilter, LazyModuleLoader, ModulesContainer } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { minifySync } from '@swc/core';
import { buildSync } from 'esbuild';
import * as outbox from '../../../lib/index.js';
import { idOf } from '../../../lib/nest/handler-checks.js';
import { addHandlers } from '../../../lib/nest/handlers.js';
import { register, type Instance } from '../../../lib/nest/instances.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import { contractMessage } from '../../support/publish.js';
import { gate } from '../../support/transport-relay.js';
import { RecordedHooks } from '../../support/relay.js';

const { inProcess, OnOutboxEvent, OutboxEvent } = outbox;
type Transports = outbox.OutboxOptions['transports'];
type Given = { readonly type: string; readonly version?: number };

@OutboxEvent({ type: 'order.placed' })
class OrderPlaced {}

class Broker extends outbox.OutboxTransport {
  override readonly receipt = 'broker';
  override publish = async (): Promise<outbox.PublishResult[]> => [];
}

/** Calls of handlers, by whatever they note. */
const calls: unknown[] = [];
beforeEach(() => void calls.splice(0));

/** A provider of this name. Its method handles the event, and notes the name. */
function handler(name: string, event: object = OrderPlaced, options: outbox.OnOutboxEventOptions = {}): Type {
  class Handler {
    on(): void {
      calls.push(name);
    }
  }
  OnOutboxEvent(event as Given, options)(Handler.prototype, 'on', descriptorOf(Handler));
  Object.defineProperty(Handler, 'name', { value: name });
  return Injectable()(Handler) ?? Handler;
}
const descriptorOf = (type: Type): TypedPropertyDescriptor<() => void> =>
  Object.getOwnPropertyDescriptor(type.prototype, 'on') as TypedPropertyDescriptor<() => void>;

/** An application of Nest with these providers, whose handlers an in-process transport gets. @throws as its start does */
async function start(providers: any[], more: ModuleMetadata = {}, transports: Transports = { default: inProcess() }) {
  @Module({ providers, controllers: more.controllers ?? [] })
  class Feature {}
  const imports = [Feature, ...(more.imports ?? [])];
  const app = await Test.createTestingModule({ imports })
    .setLogger(false as never)
    .compile();
  await app.init();
  const options = resolveOptions({ transports, ...('local' in transports ? { defaultTransport: 'local' } : {}) });
  const application = app.get(ModulesContainer);
  const tables = { server: {}, names: '' };
  const instance: Instance = {
    name: 'default',
    application,
    source: {},
    options,
    tables,
    declaredAt: '',
    started: false,
  };
  const unregister = register(instance);
  const [handlers, events] = [new InProcessHandlers(), new RecordedHooks()];
  try {
    addHandlers(application, { handlers, options, instance, events: events as never });
  } finally {
    unregister();
  }
  const call = async (type = 'order.placed', version = 1): Promise<unknown[]> => {
    const message = contractMessage({ topic: 't', payload: '{}' });
    for (const one of handlers.of(type, version)) await one.call(message, { signal: new AbortController().signal });
    return calls.splice(0).sort();
  };
  return { app, handlers, events, call };
}

async function refusal(...given: Parameters<typeof start>): Promise<Error & { code?: string }> {
  return start(...given).then(
    () => Promise.reject(new Error('It started.')),
    (error: Error) => error,
  );
}

interface Build {
  readonly names: string[];
  readonly providers: Type[];
}
const built = (providers: Type[]): Build => ({ names: providers.map(({ name }) => name), providers });

/** What a bundler with a minifier makes of two handlers in this order. */
function minified(order: readonly string[], ids = false, keepNames = false): Build {
  const classes = order.map(
    (name) =>
      `class ${name} { on() { calls.push('${name}'); } }
       handles(${name}, ${ids ? `{ id: '${name}-id' }` : '{}'}); providers.push(${name});`,
  );
  const { code } = minifySync(`(function (handles, providers, calls) { ${classes.join('\n')} })`, {
    compress: false,
    mangle: { keep_classnames: keepNames },
  });
  const providers: Type[] = [];
  const handles = (type: Type, options: outbox.OnOutboxEventOptions): void =>
    OnOutboxEvent({ type: 'minified' }, options)(type.prototype as object, 'on', descriptorOf(type));
  // eslint-disable-next-line typescript/no-implied-eval
  (new Function(`return ${code.replace(/;\s*$/, '')}`)() as (...args: unknown[]) => void)(handles, providers, calls);
  return built(providers);
}

/** What esbuild makes of two files, each with a class `Mailer`, imported in this order. */
function bundled(order: readonly string[], keepNames = false): Build {
  const folder = mkdtempSync(join(tmpdir(), 'twins-'));
  try {
    for (const file of order)
      writeFileSync(
        join(folder, `${file}.ts`),
        `import { OnOutboxEvent } from 'nestjs-outbox'; import { providers } from 'app';
         export class Mailer { @OnOutboxEvent({ type: 'bundled' }) send(): void {} }
         providers.push(Mailer);`,
      );
    const { outputFiles } = buildSync({
      stdin: { contents: order.map((file) => `import './${file}';`).join(''), resolveDir: folder },
      ...{ bundle: true, write: false, format: 'cjs', external: ['nestjs-outbox', 'app'], keepNames },
      tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
    });
    const providers: Type[] = [];
    const given: Record<string, unknown> = { 'nestjs-outbox': outbox, app: { providers } };
    // eslint-disable-next-line typescript/no-implied-eval
    const run = new Function('require', 'module', 'exports', outputFiles?.[0]?.text ?? '') as (...args: any[]) => void;
    run((name: string) => given[name], {}, {});
    return built(providers);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('The identity of a handler', () => {
  it('L3: is not taken from a name that a minifier gave, and which the next build gives to another class', async () => {
    const first = minified(['Mailer', 'Billing']);
    expect(first.names).toEqual(minified(['Billing', 'Mailer']).names); // each names the other class
    expect(await refusal(first.providers)).toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringMatching(/^The handler '\w\.on' has no id.*minifier.*keepNames/s),
    });
    const kept = minified(['Mailer', 'Billing'], false, true);
    expect(kept.names).toEqual(['Mailer', 'Billing']);
    await start(kept.providers);
  });

  it.each([[['Mailer', 'Billing']], [['Billing', 'Mailer']]])('L3: with an id it stays, built as %j', async (order) => {
    const { handlers } = await start(minified(order, true).providers);
    for (const one of handlers.of('minified', 1)) {
      await one.call(contractMessage({ topic: 't', payload: '{}' }), { signal: new AbortController().signal });
      expect(one.id).toBe(`${String(calls.pop())}-id`);
    }
    expect(handlers.of('minified', 1)).toHaveLength(2);
  });

  it('L3: tells names that people give from those of minifiers and bundlers', () => {
    const id = (name: string, oursAreRenamed = false): string => {
      const { prototype } = handler(name);
      return idOf({ prototype, method: 'on', id: undefined }, oursAreRenamed);
    };
    for (const name of ['Mailer', 'mailer', 'Mailer2', 'Job', 'SMS']) expect(id(name)).toBe(`${name}.on`);
    for (const name of ['', 'p', 'aB', 'a1b', 'xYz', '$ab', 'Mailer$1'])
      expect(() => id(name)).toThrow(/looks like one that a minifier gave/);
    expect(() => id('Job', true)).toThrow();
    // Where we are renamed ourselves is asked of a class of ours, by a name that stands twice in its file.
    const source = readFileSync(join(__dirname, '../../../lib/nest/handler-checks.ts'), 'utf8');
    const { code } = minifySync(/class (\w+) \{\}\nconst \w+ = \1\.name !== '\1';/.exec(source)?.[0] ?? '', {
      mangle: { toplevel: true },
      compress: false,
    });
    // eslint-disable-next-line typescript/no-implied-eval
    expect(new Function(`${code}; return ${/const (\w+)=/.exec(code)?.[1] ?? 'undefined'}`)()).toBe(true);
  });

  it('L3: is not taken from names that a bundler without a minifier may exchange', async () => {
    for (const one of [bundled(['mail', 'billing']), bundled(['billing', 'mail'])]) {
      expect(one.names).toEqual(['Mailer', 'Mailer2']); // each names the other class
      expect((await refusal(one.providers)).message).toMatch(
        /^The handlers 'Mailer\.send' \(in .+\) and 'Mailer2\.send' \(in .+\) of 'bundled'.*exchange them.*\{ id: 'Mailer2\.send' \}/s,
      );
    }
    const kept = bundled(['mail', 'billing'], true);
    expect((await refusal(kept.providers)).message).toMatch(/^Two handlers of 'bundled' have the id 'Mailer\.send'/);
  });

  it.each([
    ['Mailer2', 'Mailer3'],
    ['Mailer', 'billing_Mailer'],
    ['Mailer', 'orders_billing_Mailer_0'],
    ['Job', 'SMS'],
  ])('L3: asks for ids where %s and %s handle one event', async (one, other) => {
    const event = { type: 'like-named' };
    expect((await refusal([handler(one, event), handler(other, event)])).message).toMatch(/have no id/);
    await start([handler(one, event), handler(other, event, { id: 'other' })]);
    await start([handler(one, event), handler(other, { type: 'another' })]);
    await start([handler(one, { ...event, version: 1 }), handler(other, { ...event, version: 2 })]);
  });

  it('L3: takes names with numbers, and parts, that no bundler gave', async () => {
    const names = ['Mailer', 'Sha256Handler', 'Sha1Handler', 'Mail2Sms', 'Job', 'Billing_Handler', 'Shipping_Handler'];
    await start(names.map((name) => handler(name, { type: 'numbers' })));
  });

  it('L4: two of one name are refused with both modules, also where only their versions overlap', async () => {
    @Module({ providers: [handler('Mailer')] })
    class MailModule {}
    @Module({ providers: [handler('Mailer')] })
    class BillingModule {}
    expect((await refusal([], { imports: [MailModule, BillingModule] })).message).toMatch(
      /^Two handlers of 'order\.placed' have the id 'Mailer\.on': one in MailModule, one in BillingModule\..*minifiers give such names/s,
    );
    const [every, first, second] = [{}, { version: 1 }, { version: 2 }].map(
      (version) => () => handler('Mailer', { type: 'plain', ...version }),
    ) as [() => Type, () => Type, () => Type];
    for (const pair of [
      [first(), every()],
      [every(), first()],
    ])
      expect((await refusal(pair)).message).toContain("Two handlers of 'plain' have the id 'Mailer.on'");
    await start([first(), second()]);
  });
});

describe('The search for handlers', () => {
  it('L5: finds those of a module that was loaded later, when they are made and not before', async () => {
    const connected = gate();
    const Late = handler('late');
    const made = { provide: Late, useFactory: () => connected.opened.then(() => new Late()) };
    @Module({ providers: [made] })
    class LazyModule {}
    const { app, call } = await start([handler('early')]);
    expect(await call()).toEqual(['early']);
    const loading = app.get(LazyModuleLoader).load(() => LazyModule);
    expect(await call()).toEqual(['early']);
    connected.open();
    await loading;
    expect(await call()).toEqual(['early', 'late']);
  });

  it('L5: warns of a later one that cannot be called, and calls the others', async () => {
    @Module({ providers: [handler('Other', OrderPlaced, { id: 'twin' }), handler('Good')] })
    class LazyModule {}
    const { app, call, events } = await start([handler('Twin', OrderPlaced, { id: 'twin' })]);
    await app.get(LazyModuleLoader).load(() => LazyModule);
    expect(await call()).toEqual(['Good', 'Twin']);
    expect(events.of('warning')).toEqual([
      {
        text: expect.stringMatching(
          /^a handler that was loaded later is not called: .*id 'twin': one in Feature, one in LazyModule/,
        ),
      },
    ]);
  });

  it('L5: finds those that a factory returns in an array; an alias, and what is inherited, once', async () => {
    const [First, Second, Base] = ['First', 'Second', 'Base'].map((name) => handler(name)) as [Type, Type, Type];
    @Injectable()
    class Derived extends Base {}
    class Made extends Base {}
    const { call } = await start([
      { provide: 'HANDLERS', useFactory: () => [new First(), new Second(), null, 3] },
      Derived,
      { provide: 'alias', useExisting: Derived },
      { provide: 'made', useFactory: () => new Made() },
    ]);
    expect(await call()).toEqual(['Base', 'Base', 'First', 'Second']);
  });

  it.each([Scope.REQUEST, Scope.TRANSIENT])('L5: names one that a factory makes anew, scope %i', async (scope) => {
    const Mailer = handler('Mailer');
    const made = { provide: Mailer, scope, inject: ['NAME'], useFactory: () => new Mailer() };
    expect(await refusal([made, { provide: 'NAME', useValue: 1 }])).toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringContaining('Mailer.on handles outbox events, but its provider is not a singleton.'),
    });
  });

  class Nothing {}
  it.each<[string, ClassDecorator & MethodDecorator]>([
    ['@UseGuards', UseGuards(Nothing as never)],
    ['@UseInterceptors', UseInterceptors(Nothing as never)],
    ['@UsePipes', UsePipes(ParseIntPipe)],
    ['@UseFilters', UseFilters(BaseExceptionFilter)],
  ])('L6: refuses a handler with %s, on the method or on its class', async (name, decorator) => {
    const [OnMethod, OnClass] = [handler('OnMethod'), handler('OnClass')];
    decorator(OnMethod.prototype as object, 'on', descriptorOf(OnMethod) as TypedPropertyDescriptor<unknown>);
    decorator(OnClass);
    Controller()(OnClass);
    class Inherits extends OnClass {}
    const refused = (of: string) => `${of}.on handles outbox events, and Nest applies ${name} to requests only.`;
    expect((await refusal([OnMethod])).message).toContain(refused('OnMethod'));
    expect((await refusal([], { controllers: [OnClass] })).message).toContain(refused('OnClass'));
    expect((await refusal([Inherits])).message).toContain(refused('Inherits'));
  });

  /** As `@Transactional()` of typeorm-transactional does, and many that time, log or retry. */
  function wrapped(_prototype: object, _name: string, descriptor: PropertyDescriptor): void {
    const original = descriptor.value as (...args: unknown[]) => unknown;
    descriptor.value = function (this: unknown, ...args: unknown[]): unknown {
      return original.apply(this, args);
    };
  }
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
    override above(): void {}
  }
  class Mixed {}
  const below = Object.getOwnPropertyDescriptor(Stock.prototype, 'below') as PropertyDescriptor;
  Object.defineProperty(Mixed.prototype, 'taken', below);

  it('finds a method whose function another decorator replaced, above or below, and one that a mixin took over', async () => {
    const stock = await start([Stock]);
    expect([await stock.call(), await stock.call('plain')]).toEqual([['above', 'below', 'between'], ['between']]);
    expect(await (await start([Overriding])).call()).toEqual(['below', 'between']);
    expect(await (await start([Mixed])).call()).toEqual(['below']);
  });
});

describe('The events that handlers name', () => {
  const event = (name: string, version = 1): Type => {
    class Event {}
    Object.defineProperty(Event, 'name', { value: name });
    OutboxEvent({ type: 'invoice.sent', version })(Event);
    return Event;
  };
  const InvoiceSent = event('InvoiceSent');

  it('L8: refuses at start two classes of one type and version, and names both and their handlers', async () => {
    expect(await refusal([handler('Mailer', InvoiceSent), handler('Ledger', event('BillSent'))])).toMatchObject({
      code: 'DUPLICATE_EVENT_TYPE',
      message: expect.stringContaining(
        "InvoiceSent (of Mailer.on) and BillSent (of Ledger.on) are both event 'invoice.sent' version 1.",
      ),
    });
  });

  it('L8: takes several handlers of a class, another version, the plain message, and the class loaded again', async () => {
    const { call } = await start([
      handler('Mailer', InvoiceSent),
      handler('Again', InvoiceSent),
      handler('Next', event('InvoiceSentToo', 2)),
      handler('Plain', { type: 'invoice.sent' }),
      handler('Reloaded', event('InvoiceSent')),
    ]);
    expect(await call('invoice.sent', 1)).toEqual(['Again', 'Mailer', 'Plain', 'Reloaded']);
    expect(await call('invoice.sent', 2)).toEqual(['Next', 'Plain']);
  });

  it('are of classes with @OutboxEvent', async () => {
    expect(await refusal([handler('Wrong', class {})])).toMatchObject({ code: 'UNKNOWN_EVENT' });
  });

  it('go to an in-process transport; where they do not, the line to add is told', async () => {
    @OutboxEvent({ type: 'elsewhere', transport: 'broker' })
    class Elsewhere {}
    const [lost, plain] = [handler('Lost', Elsewhere), handler('Plain', { type: 'plain' })];
    const broker = new Broker();
    expect(await refusal([lost], {}, { broker, local: inProcess() })).toMatchObject({
      code: 'HANDLER_NOT_ROUTED',
      message:
        "Lost.on handles 'elsewhere', which goes to 'broker' and to no inProcess() transport. " +
        "Add `transport: ['broker', 'local']` to @OutboxEvent of Elsewhere.",
    });
    expect((await refusal([plain], {}, { broker })).message).toBe(
      "Plain.on handles 'plain', but no transport is inProcess(). Add `local: inProcess()` to the transports of OutboxModule.",
    );
    expect((await refusal([lost], {}, { broker })).message).toContain(
      "Add `local: inProcess()` to the transports of OutboxModule, and add `transport: ['broker', 'local']`",
    );
  });
});
