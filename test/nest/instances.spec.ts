// @tier gate
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Inject, Injectable, Logger, Module, type DynamicModule } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import { useApplications, build, failure, LineLogger, OrderPlaced, quiet, typeOrm } from './support/app.js';

describeWith('postgres', 'DataSources and instances', () => {
  let other: TestDatabase;
  const { applications, database } = useApplications();

  beforeAll(async () => {
    other = await createTestDatabase('postgres');
  });
  afterAll(async () => {
    await other.drop();
  });

  it('takes a DataSource as an object, as a token, and as a token of an imported module', async () => {
    const dataSource = await new DataSource(other.options).initialize();
    const TOKEN = Symbol('dataSource');
    @Module({ providers: [{ provide: TOKEN, useValue: dataSource }], exports: [TOKEN] })
    class Owner {}
    try {
      const modules = [
        OutboxModule.forRoot({ ...quiet({ relay: false }), dataSource }),
        OutboxModule.forRootAsync({ imports: [Owner], dataSource: TOKEN, useFactory: () => quiet({ relay: false }) }),
      ];
      for (const module of modules) {
        const app = await applications.start(build([module]));
        await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('x'));
        await applications.close();
      }
    } finally {
      await dataSource.destroy();
    }
  });

  describe('a DataSource that is not there', () => {
    it('is named, with what there is and what to write', async () => {
      const error = await failure(
        build([typeOrm(database), typeOrm(other, 'audit'), OutboxModule.forRoot({ ...quiet(), dataSource: 'audti' })]),
      );
      expect(error).toMatchObject({ code: 'DATA_SOURCE_NOT_FOUND' });
      expect(error.message).toContain("DataSource 'audti' is not there");
      expect(error.message).toContain("provides: 'DataSource'".replace("'DataSource'", 'the default one'));
      expect(error.message).toContain("'auditDataSource'");
      expect(error.message).toContain("TypeOrmModule.forRoot({ name: 'audti', … })");
    });
    it('shows no password of a URL that is given in its place', async () => {
      const dataSource = 'postgres://shop:hunter2@db/shop';
      const error = await failure(build([typeOrm(database), OutboxModule.forRoot({ ...quiet(), dataSource })]));
      expect(error.message).toContain("name: 'postgres://***@db/shop'");
      expect(JSON.stringify([error, error.message])).not.toContain('hunter2');
    });
    it('is told apart from none at all, from one that is none, and from one that is not initialized', async () => {
      expect((await failure(build([OutboxModule.forRoot(quiet())]))).message).toContain(
        'This application provides none.',
      );
      @Module({ providers: [{ provide: 'X', useValue: {} }], exports: ['X'] })
      class Wrong {}
      const wrong = OutboxModule.forRootAsync({ imports: [Wrong], dataSource: 'X', useFactory: () => quiet() });
      expect((await failure(build([wrong]))).message).toContain("'X' is an object (Object), not a DataSource");
      const closed = OutboxModule.forRoot({ ...quiet(), dataSource: new DataSource(database.options) });
      expect(await failure(build([closed]))).toMatchObject({ code: 'NOT_STARTED' });
    });
  });

  it('keeps nothing of an outbox whose store cannot be opened', async () => {
    const shared = globalThis as unknown as Record<symbol, { instances: Set<unknown> }>;
    const kept = (): number => shared[Symbol.for('nestjs-outbox:instances')]!.instances.size;
    await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false }))]));
    const before = kept();
    const store = (): never => {
      throw new Error('no store');
    };
    expect((await failure(build([typeOrm(other), OutboxModule.forRoot(quiet({ store }))]))).message).toBe('no store');
    const closed = OutboxModule.forRoot({ ...quiet(), dataSource: new DataSource(other.options) });
    expect(await failure(build([closed]))).toMatchObject({ code: 'NOT_STARTED' });
    expect([before, kept()]).toEqual([1, 1]);
  });

  describe('a second instance', () => {
    it('G4: of one name is refused, with both places', async () => {
      const error = await failure(
        build([typeOrm(database), OutboxModule.forRoot(quiet()), OutboxModule.forRoot(quiet())]),
      );
      expect(error).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
      expect(error.message.match(/instances\.spec\.ts:\d+/g)).toHaveLength(2);
    });
    it('G4: on the same tables is refused, on others not', async () => {
      const named = (prefix: string) =>
        OutboxModule.forRoot({ ...quiet({ relay: false, database: { prefix } }), name: 'second' });
      const first = OutboxModule.forRoot(quiet({ relay: false }));
      const error = await failure(build([typeOrm(database), first, named('outbox_')]));
      expect(error).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
      await applications.start(build([typeOrm(database), first, named('second_')]));
    });
    it('G4: on one DataSource object in another application is refused while the first runs', async () => {
      const dataSource = await new DataSource(database.options).initialize();
      const module = (): DynamicModule => OutboxModule.forRoot({ ...quiet({ relay: false }), dataSource });
      try {
        await applications.start(build([module()]));
        expect(await failure(build([module()]))).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
        await applications.close();
        await applications.start(build([module()]));
        await applications.close();
      } finally {
        await dataSource.destroy();
      }
    });
    it('G4, L15: of another copy of the package on one DataSource object is refused, and both copies are named', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'outbox-copy-'));
      const dataSource = await new DataSource(database.options).initialize();
      try {
        cpSync('lib', join(folder, 'lib'), { recursive: true });
        symlinkSync(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'));
        const copy = (await import(join(folder, 'lib', 'index.ts'))) as typeof import('../../lib/index.js');
        expect(copy.OutboxModule).not.toBe(OutboxModule);
        @Injectable()
        class Orders {
          constructor(@Inject(copy.OutboxService) readonly outbox: unknown) {}
        }
        const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue(undefined);
        const ours = OutboxModule.forRoot({ ...quiet({ relay: false }), dataSource });
        const unknown = await failure(build([ours], [Orders]));
        expect(unknown.message).toMatch(/^Nest can't resolve dependencies of the Orders \(\?\)/);
        expect(warned).toHaveBeenCalledWith(expect.stringMatching(/^nestjs-outbox is loaded more than once/));
        warned.mockRestore();
        const foreign = { default: copy.inProcess() };
        const { message } = await failure(
          build([OutboxModule.forRoot({ ...quiet({ transports: foreign }), dataSource })]),
        );
        expect(message).toContain('transports.default: this application has no provider InProcessHandlers.');
        expect(message).toMatch(
          /loaded more than once .*outbox-copy-.* and |loaded more than once .* and .*outbox-copy-/,
        );
        await applications.start(build([OutboxModule.forRoot({ ...quiet({ relay: false }), dataSource })]));
        const logger = new LineLogger();
        const second = { ...quiet({ relay: false, logger, logLevel: 'warn' }), dataSource };
        expect(await failure(build([copy.OutboxModule.forRoot(second)]))).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
        const [warning] = logger.lines.filter((line) => line.includes('loaded more than once'));
        expect(warning).toContain(join(folder, 'lib'));
        expect(warning).toContain(join(process.cwd(), 'lib'));
      } finally {
        await applications.close();
        await dataSource.destroy();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
});
