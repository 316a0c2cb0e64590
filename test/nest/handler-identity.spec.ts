import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Injectable, Module, type Type } from '@nestjs/common';
import { minifySync } from '@swc/core';
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
