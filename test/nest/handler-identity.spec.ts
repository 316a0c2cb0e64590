// @tier gate
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Injectable, Module, type Type } from '@nestjs/common';
import { minifySync } from '@swc/core';
import { buildSync } from 'esbuild';
import { DataSource } from 'typeorm';
import * as outbox from '../../lib/index.js';
import { idOf } from '../../lib/nest/handler-checks.js';
import { describeWith } from '../support/services.js';
import { build, failure, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

const { inProcess, OnOutboxEvent, OutboxDispatcher, OutboxModule, OutboxService } = outbox;

interface Build {
  readonly names: string[];
  readonly providers: Type[];
}

/** What a bundler with a minifier makes of two handlers in this order. */
function buildOf(order: readonly string[], ids: boolean, keepNames: boolean, calls: string[]): Build {
  const classes = order.map(
    (name) =>
      `class ${name} { on() { calls.push('${name}'); if (calls.failing === '${name}') throw new Error('no'); } }
       handles(${name}.prototype, ${ids ? `'${name}-id'` : 'undefined'}); providers.push(${name});`,
  );
  const { code } = minifySync(`(function (handles, providers, calls) { ${classes.join('\n')} })`, {
    compress: false,
    mangle: { keep_classnames: keepNames },
  });
  const providers: Type[] = [];
  const handles = (prototype: object, id: string | undefined): void =>
    OnOutboxEvent({ type: 'minified' }, id === undefined ? {} : { id })(
      prototype,
      'on',
      Object.getOwnPropertyDescriptor(prototype, 'on') as TypedPropertyDescriptor<() => void>,
    );
  // eslint-disable-next-line typescript/no-implied-eval
  (new Function(`return ${code.replace(/;\s*$/, '')}`)() as (...args: unknown[]) => void)(handles, providers, calls);
  return { names: providers.map(({ name }) => name), providers };
}

type OutboxHandlerEvent = { type: string; version?: number };

/** What esbuild makes of two files, each with a class `Mailer`, imported in this order. */
function esbuildOf(order: readonly string[], keepNames: boolean): string {
  const folder = mkdtempSync(join(tmpdir(), 'twins-'));
  try {
    for (const file of order)
      writeFileSync(
        join(folder, `${file}.ts`),
        `import { OnOutboxEvent } from 'nestjs-outbox';
         import { providers, called } from 'app';
         export class Mailer {
           @OnOutboxEvent({ type: 'bundled' })
           send(): void {
             called.push('${file}');
             if (called.failing === '${file}') throw new Error('no');
           }
         }
         providers.push(Mailer);`,
      );
    const { outputFiles } = buildSync({
      stdin: { contents: order.map((file) => `import './${file}';`).join(''), resolveDir: folder },
      bundle: true,
      write: false,
      format: 'cjs',
      external: ['nestjs-outbox', 'app'],
      keepNames,
      tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
    });
    return (outputFiles[0] as { text: string }).text;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describeWith('postgres', 'The identity of a handler', () => {
  const used = useApplications();
  const { applications } = used;
  let prefixes = 0;
  const module = (prefix = `i${++prefixes}_`) =>
    OutboxModule.forRoot(
      quiet({ relay: 'manual', transports: { default: inProcess() }, database: { setup: 'create', prefix } }),
    );
  const application = ({ providers }: Build, prefix?: string) =>
    build([typeOrm(used.database), module(prefix)], providers);

  it('L3: is not taken from a name that a minifier gave, and which the next build gives to another class', async () => {
    const [first, second] = [
      buildOf(['Mailer', 'Billing'], false, false, []),
      buildOf(['Billing', 'Mailer'], false, false, []),
    ];
    expect(first.names).toEqual(second.names); // each names the other class
    expect(await failure(application(first))).toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringMatching(/^The handler '\w\.on' has no id.*minifier.*keepNames/s),
    });
    for (const kept of [buildOf(['Mailer', 'Billing'], false, true, [])]) {
      expect(kept.names).toEqual(['Mailer', 'Billing']);
      await applications.start(application(kept));
    }
  });

  it('L3: with an id it stays, whatever the builds call the classes', async () => {
    const calls: string[] & { failing?: string } = [];
    const prefix = `i${++prefixes}_`;
    const first = await applications.start(application(buildOf(['Mailer', 'Billing'], true, false, calls), prefix));
    calls.failing = 'Billing';
    const dataSource = first.get(DataSource);
    await dataSource.transaction((manager) =>
      first.get(OutboxService).enqueue({ type: 'minified', key: null, payload: {} }, { manager }),
    );
    expect(await first.get(OutboxDispatcher).runOnce()).toMatchObject({ published: 0 });
    await applications.close();
    delete calls.failing;
    calls.length = 0;
    const second = await applications.start(application(buildOf(['Billing', 'Mailer'], true, false, calls), prefix));
    while ((await second.get(OutboxDispatcher).drain()).published === 0) await Promise.resolve();
    expect(calls).toEqual(['Billing']);
  });

  it('L3: tells names that people give from those of minifiers and bundlers', () => {
    const id = (name: string, oursAreRenamed = false): string => {
      class Handler {}
      Object.defineProperty(Handler, 'name', { value: name });
      return idOf({ prototype: Handler.prototype, method: 'on', id: undefined }, oursAreRenamed);
    };
    for (const name of ['Mailer', 'mailer', 'Mailer2', 'Job', 'SMS']) expect(id(name)).toBe(`${name}.on`);
    for (const name of ['', 'p', 'aB', 'a1b', 'xYz', '$ab', 'Mailer$1'])
      expect(() => id(name)).toThrow(/looks like one that a minifier gave/);
    expect(() => id('Job', true)).toThrow();
    // Where we are renamed ourselves is asked of a class of ours, by a name that stands twice in its file.
    const source = readFileSync(join(__dirname, '../../lib/nest/handler-checks.ts'), 'utf8');
    const { code } = minifySync(/class (\w+) \{\}\nconst \w+ = \1\.name !== '\1';/.exec(source)?.[0] ?? '', {
      mangle: { toplevel: true },
      compress: false,
    });
    // eslint-disable-next-line typescript/no-implied-eval
    expect(new Function(`${code}; return ${/const (\w+)=/.exec(code)?.[1] ?? 'undefined'}`)()).toBe(true);
  });

  const handling = (name: string, event: OutboxHandlerEvent, id?: string): Type => {
    class Handler {
      @OnOutboxEvent(event, id === undefined ? {} : { id })
      send(): void {}
    }
    Object.defineProperty(Handler, 'name', { value: name });
    return Injectable()(Handler) ?? Handler;
  };

  const bundled = (order: readonly string[], keepNames: boolean, called: string[] & { failing?: string }): Build => {
    const code = esbuildOf(order, keepNames);
    const providers: Type[] = [];
    const given = { 'nestjs-outbox': outbox, app: { providers, called } } as Record<string, unknown>;
    // eslint-disable-next-line typescript/no-implied-eval
    (new Function('require', 'module', 'exports', code) as (...args: unknown[]) => void)(
      (name: string) => given[name],
      {},
      {},
    );
    return { names: providers.map(({ name }) => name), providers };
  };

  it('L3: is not taken from names that a bundler without a minifier may exchange', async () => {
    const [first, second] = [bundled(['mail', 'billing'], false, []), bundled(['billing', 'mail'], false, [])];
    expect(first.names).toEqual(['Mailer', 'Mailer2']);
    expect(second.names).toEqual(['Mailer', 'Mailer2']); // each names the other class
    for (const one of [first, second])
      expect(await failure(application(one))).toMatchObject({
        code: 'INVALID_OPTIONS',
        message: expect.stringMatching(
          /^The handlers 'Mailer\.send' \(in .+\) and 'Mailer2\.send' \(in .+\) of 'bundled'.*exchange them.*\{ id: 'Mailer2\.send' \}/s,
        ),
      });
    expect(await failure(application(bundled(['mail', 'billing'], true, [])))).toMatchObject({
      message: expect.stringMatching(/^Two handlers of 'bundled' have the id 'Mailer\.send'/),
    });
  });

  it.each([
    ['Mailer2', 'Mailer3'],
    ['Mailer', 'billing_Mailer'],
    ['Mailer', 'orders_billing_Mailer_0'],
    ['Job', 'SMS'],
  ])('L3: asks for ids where %s and %s handle one event', async (one, other) => {
    const event = { type: 'like-named' };
    const start = (...providers: Type[]): Promise<Error> =>
      failure(build([typeOrm(used.database), module()], providers));
    expect((await start(handling(one, event), handling(other, event))).message).toMatch(/have no id/);
    await expect(start(handling(one, event), handling(other, event, 'other'))).rejects.toThrow('It started.');
    const elsewhere = handling(other, { type: 'another' });
    await expect(start(handling(one, event), elsewhere)).rejects.toThrow('It started.');
    const versions = [handling(one, { ...event, version: 1 }), handling(other, { ...event, version: 2 })];
    await expect(start(...versions)).rejects.toThrow('It started.');
  });

  it('L3: takes names with numbers, and parts, that no bundler gave', async () => {
    const names = ['Mailer', 'Sha256Handler', 'Sha1Handler', 'Mail2Sms', 'Job', 'Billing_Handler', 'Shipping_Handler'];
    const providers = names.map((name) => handling(name, { type: 'numbers' }));
    await applications.start(build([typeOrm(used.database), module()], providers));
  });

  it('L4: two of one name are refused with both modules', async () => {
    const handling = (): Type => {
      @Injectable()
      class Mailer {
        @OnOutboxEvent(OrderPlaced)
        send(): void {}
      }
      return Mailer;
    };
    @Module({ providers: [handling()] })
    class MailModule {}
    @Module({ providers: [handling()] })
    class BillingModule {}
    const { message } = await failure(build([typeOrm(used.database), module(), MailModule, BillingModule]));
    expect(message).toContain(
      "Two handlers of 'order.placed' have the id 'Mailer.send': one in MailModule, one in BillingModule.",
    );
    expect(message).toMatch(/minifiers give such names/);
  });
});
