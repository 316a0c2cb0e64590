import { Module } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { OutboxDispatcher, OutboxModule, OutboxService } from '../../lib/index.js';
import { openInstances } from '../../lib/nest/instances.js';
import { describeWith } from '../support/services.js';
import { build, quiet, typeOrm, useApplications } from './support/app.js';

describeWith('postgres', 'L16: an outbox that LazyModuleLoader loads', () => {
  const used = useApplications();

  const late = (isGlobal: boolean) =>
    OutboxModule.forRoot({ name: 'late', isGlobal, ...quiet({ database: { setup: 'create', prefix: 'late_' } }) });
  const refusal = {
    code: 'NOT_STARTED',
    message: expect.stringMatching(
      /^The outbox 'late' was loaded when its application had been started: .*loaded-later\.spec\.ts.* root module/s,
    ),
  };

  it.each([
    ['global', true, false],
    ['local', false, false],
    ['global, beside another outbox', true, true],
    ['local, beside another outbox', false, true],
  ])('is refused, and leaves nothing open: %s', async (_, isGlobal, beside) => {
    const app = await used.applications.start(
      build([typeOrm(used.database), ...(beside ? [OutboxModule.forRoot(quiet())] : [])]),
    );
    const open = openInstances().length;
    @Module({ imports: [late(isGlobal)] })
    class Feature {}
    const loader = app.get(LazyModuleLoader);
    await expect(loader.load(() => late(isGlobal))).rejects.toMatchObject(refusal);
    await expect(loader.load(() => Feature)).rejects.toMatchObject(refusal);
    expect(openInstances()).toHaveLength(open);
    if (beside) expect(app.get(OutboxDispatcher).status().running).toBe(true);
  });

  it('is refused while the application starts, too, once Nest has chosen whose hooks it calls', async () => {
    const found: unknown[] = [];
    class Impatient {
      constructor(readonly loader: LazyModuleLoader) {}
      async onApplicationBootstrap(): Promise<void> {
        await this.loader.load(() => late(true)).catch((error: unknown) => found.push(error));
      }
    }
    const provider = {
      provide: Impatient,
      inject: [LazyModuleLoader],
      useFactory: (loader: LazyModuleLoader) => new Impatient(loader),
    };
    await used.applications.start(build([typeOrm(used.database), OutboxModule.forRoot(quiet())], [provider]));
    expect(found).toEqual([expect.objectContaining(refusal)]);
  });

  it('may be used by modules that are loaded later', async () => {
    const app = await used.applications.start(build([typeOrm(used.database), OutboxModule.forRoot(quiet())]));
    class Later {
      constructor(readonly outbox: OutboxService) {}
    }
    @Module({
      providers: [
        { provide: Later, inject: [OutboxService], useFactory: (outbox: OutboxService) => new Later(outbox) },
      ],
    })
    class Feature {}
    const module = await app.get(LazyModuleLoader).load(() => Feature);
    expect(module.get(Later).outbox).toBe(app.get(OutboxService));
  });
});
