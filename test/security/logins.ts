import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxModule, type OutboxOptions } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { createUser, type DatabaseUser } from '../readme/sql.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import type { DatabaseKind } from '../support/services.js';

/** One database of a test, users with the rights that a document gives them, and applications that connect as these. */
export class Logins {
  database!: TestDatabase;
  admin!: DataSource;
  transport!: RecordingTransport;
  readonly users: DatabaseUser[] = [];
  readonly open: { close(): Promise<void> }[] = [];

  constructor(
    private readonly kind: DatabaseKind,
    private readonly defaults: Partial<OutboxOptions>,
  ) {}

  async begin(): Promise<void> {
    this.transport = new RecordingTransport();
    this.database = await createTestDatabase(this.kind);
    this.admin = await new DataSource({ ...this.database.options, poolSize: 2 } as DataSourceOptions).initialize();
  }

  async end(): Promise<void> {
    for (const one of this.open.splice(0)) await one.close();
    for (const user of this.users.splice(0)) await user.drop();
    await this.admin.destroy();
    await this.database.drop();
  }

  async connect(options: DataSourceOptions): Promise<DataSource> {
    const dataSource = await new DataSource(options).initialize();
    this.open.push({ close: () => dataSource.destroy() });
    return dataSource;
  }

  async start(options: DataSourceOptions, outbox: Partial<OutboxOptions>): Promise<TestingModule> {
    const defaults: OutboxOptions = { transports: { default: this.transport }, logLevel: 'silent', ...this.defaults };
    const imports = [
      TypeOrmModule.forRoot({ ...options, retryAttempts: 0 }),
      OutboxModule.forRoot({ ...defaults, ...outbox }),
    ];
    const app = await Test.createTestingModule({ imports })
      .setLogger(false as never)
      .compile();
    this.open.push(app); // also one whose start fails has connections
    return app.init();
  }

  /** A user with the documented rights, as an application would connect. @param strict with those for a strict order */
  async as(documented: readonly string[], strict = false): Promise<DataSourceOptions> {
    const user = await createUser(this.admin, this.kind, documented, strict);
    this.users.push(user);
    expect(user.grants).toBe(documented.length + Number(strict));
    return this.optionsOf(user);
  }

  optionsOf({ url }: DatabaseUser): DataSourceOptions {
    return { ...this.database.options, url } as DataSourceOptions;
  }

  /** What of these statements is not refused for want of a right. */
  async allowed(options: DataSourceOptions, statements: readonly string[]): Promise<string[]> {
    const dataSource = await this.connect(options);
    const done: string[] = [];
    for (const statement of statements) {
      const error: Error | undefined = await dataSource.query(statement).then(
        () => undefined,
        (reason: Error) => reason,
      );
      if (!/denied|must be owner|cannot delete from view/.test(error?.message ?? ''))
        done.push(`${statement}: ${error?.message}`);
    }
    return done;
  }
}
