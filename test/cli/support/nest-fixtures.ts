/** The files of an application, as Nest's CLI makes them, with TypeORM. */
export interface Fixture {
  readonly files: Readonly<Record<string, string>>;
  /** What `dist` has. */
  readonly module?: string;
  readonly project?: string;
  readonly args?: readonly string[];
  /** TypeORM's own command line runs the migrations with this file. */
  readonly dataSource?: string;
  /** Files that are as they were before. */
  readonly untouched?: readonly string[];
  /** Files that have the migrations afterwards. */
  readonly changed: readonly string[];
}

const COMPILER = {
  module: 'nodenext',
  moduleResolution: 'nodenext',
  target: 'ES2023',
  esModuleInterop: true,
  isolatedModules: true,
  emitDecoratorMetadata: true,
  experimentalDecorators: true,
  strict: true,
  strictPropertyInitialization: false,
  skipLibCheck: true,
  types: ['node'],
  rootDir: './src',
  outDir: './dist',
};
const json = (content: object): string => `${JSON.stringify(content, null, 2)}\n`;

function base(type: 'commonjs' | 'module'): Record<string, string> {
  const end = type === 'module' ? '.js' : '';
  return {
    'package.json': json({
      name: 'shop',
      ...(type === 'module' ? { type } : {}),
      dependencies: { 'nestjs-outbox': '*' },
    }),
    'nest-cli.json': json({ sourceRoot: 'src', compilerOptions: { deleteOutDir: true } }),
    'tsconfig.json': `{\n  // as Nest's CLI writes it\n  "compilerOptions": ${json(COMPILER)}, "include": ["src"] }`,
    'src/main.ts': `import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module${end}';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  await app.listen(process.env.PORT ?? 3000);
}
void bootstrap();
`,
    'src/app.service.ts': `import { Injectable } from '@nestjs/common';\n\n@Injectable()\nexport class AppService {}\n`,
    'src/migrations/1700000000000-orders.ts': `import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Orders1700000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('create table orders (id int primary key)');
  }
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table orders');
  }
}
`,
  };
}

const appModule = (imports: string, more: string, end = ''): string => `import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AppService } from './app.service${end}';
${more}
@Module({
  imports: [${imports}],
  providers: [AppService],
})
export class AppModule {}
`;

/** @param type of the DataSource */
export function listOfMigrations(type = 'postgres'): Fixture {
  const options = `
    TypeOrmModule.forRoot({
      type: '${type}',
      url: process.env.DATABASE_URL,
      migrations: [
        Orders1700000000000, // the first one
      ],
      migrationsRun: true,
    }),
  `;
  const more = `import { Orders1700000000000 } from './migrations/1700000000000-orders';\n`;
  return {
    files: { ...base('commonjs'), 'src/app.module.ts': appModule(options, more) },
    changed: ['src/app.module.ts'],
  };
}

const ownDataSource: Fixture = {
  files: {
    ...base('module'),
    'src/data-source.ts': `import { DataSource, type DataSourceOptions } from "typeorm"

export const options: DataSourceOptions = {
  type: "postgres",
  url: process.env.DATABASE_URL,
  migrations: [import.meta.dirname + "/migrations/*.js"],
}
export default new DataSource(options)
`,
    'src/app.module.ts': appModule(
      'TypeOrmModule.forRoot({ ...options, autoLoadEntities: true })',
      `import { options } from './data-source.js';\n`,
      '.js',
    ),
  },
  dataSource: 'dist/data-source.js',
  changed: ['src/data-source.ts'],
};

/** TypeORM's command line has options of its own. */
const twoOptions: Fixture = {
  files: {
    ...base('commonjs'),
    'src/data-source.ts': `import { DataSource } from 'typeorm';
import { Orders1700000000000 } from './migrations/1700000000000-orders';

export const AppDataSource = new DataSource({
  type: 'postgres',
  url: process.env.DATABASE_URL,
  migrations: [Orders1700000000000],
});
`,
    'src/app.module.ts': appModule(`TypeOrmModule.forRoot({ type: 'postgres', url: process.env.DATABASE_URL })`, ''),
  },
  dataSource: 'dist/data-source.js',
  changed: ['src/data-source.ts', 'src/app.module.ts'],
};

const factory: Fixture = {
  files: {
    ...base('commonjs'),
    'src/app.module.ts': appModule(
      `
    ConfigModule.forRoot(),
    TypeOrmModule.forRootAsync({
      imports: [ConfigModule],
      inject: [ConfigService],
      useFactory: async (config: ConfigService): Promise<TypeOrmModuleOptions> => {
        const url = config.get<string>('DATABASE_URL');
        return {
          type: 'postgres',
          url,
          migrations: [join(__dirname, 'migrations', '*.js')],
          migrationsRun: true,
          ...(process.env.DATABASE_SSL ? { ssl: true } : {}),
        };
      },
    }),
  `,
      `import { ConfigModule, ConfigService } from '@nestjs/config';
import type { TypeOrmModuleOptions } from '@nestjs/typeorm';
import { join } from 'node:path';\n`,
    ),
  },
  changed: ['src/app.module.ts'],
};

const optionsClass: Fixture = {
  files: {
    ...base('module'),
    'src/typeorm.config.ts': `import { Injectable } from '@nestjs/common';
import type { TypeOrmModuleOptions, TypeOrmOptionsFactory } from '@nestjs/typeorm';

@Injectable()
export class TypeOrmConfig implements TypeOrmOptionsFactory {
  createTypeOrmOptions(): TypeOrmModuleOptions {
    const options: TypeOrmModuleOptions = {
      type: 'postgres',
      url: process.env.DATABASE_URL,
      migrationsRun: true,
    };
    return options;
  }
}
`,
    'src/app.module.ts': appModule(
      'TypeOrmModule.forRootAsync({ useClass: TypeOrmConfig })',
      `import { TypeOrmConfig } from './typeorm.config.js';\n`,
      '.js',
    ),
  },
  changed: ['src/typeorm.config.ts'],
};

const registered: Fixture = {
  files: {
    ...base('commonjs'),
    'src/database.config.ts': `import { registerAs } from '@nestjs/config';
import type { TypeOrmModuleOptions } from '@nestjs/typeorm';

export default registerAs(
  'database',
  (): TypeOrmModuleOptions => ({
    type: 'postgres',
    url: process.env.DATABASE_URL,
    migrations: [],
    migrationsRun: true,
  }),
);
`,
    'src/app.module.ts': appModule(
      `
    ConfigModule.forRoot(),
    TypeOrmModule.forRootAsync({
      imports: [ConfigModule.forFeature(databaseConfig)],
      inject: [databaseConfig.KEY],
      useFactory: (database: ConfigType<typeof databaseConfig>) => database,
    }),
  `,
      `import { ConfigModule, type ConfigType } from '@nestjs/config';\nimport databaseConfig from './database.config';\n`,
    ),
  },
  changed: ['src/database.config.ts'],
};

const other = base('commonjs');
const monorepo: Fixture = {
  files: {
    'package.json': other['package.json'] as string,
    'nest-cli.json': json({
      monorepo: true,
      root: 'apps/shop',
      sourceRoot: 'apps/shop/src',
      projects: {
        shop: {
          type: 'application',
          root: 'apps/shop',
          entryFile: 'main',
          sourceRoot: 'apps/shop/src',
          compilerOptions: { tsConfigPath: 'apps/shop/tsconfig.app.json' },
        },
        admin: {
          type: 'application',
          root: 'apps/admin',
          entryFile: 'main',
          sourceRoot: 'apps/admin/src',
          compilerOptions: { tsConfigPath: 'apps/admin/tsconfig.app.json' },
        },
        database: { type: 'library', root: 'libs/database', entryFile: 'index', sourceRoot: 'libs/database/src' },
      },
    }),
    'tsconfig.json': json({
      compilerOptions: {
        ...COMPILER,
        rootDir: '.',
        paths: { '@app/database': ['./libs/database/src'], '@app/database/*': ['./libs/database/src/*'] },
      },
    }),
    'apps/shop/tsconfig.app.json': json({
      extends: '../../tsconfig.json',
      compilerOptions: { module: 'commonjs', moduleResolution: 'bundler', outDir: '../../dist' },
      include: ['src'],
    }),
    'apps/shop/src/main.ts': other['src/main.ts'] as string,
    'apps/shop/src/app.module.ts': `import { Module } from '@nestjs/common';
import { DatabaseModule } from '@app/database';

@Module({ imports: [DatabaseModule] })
export class AppModule {}
`,
    'apps/admin/src/main.ts': other['src/main.ts'] as string,
    'apps/admin/src/app.module.ts': appModule(`TypeOrmModule.forRoot({ type: 'sqlite' as never })`, ''),
    'libs/database/src/index.ts': `export * from './database.module';\n`,
    'libs/database/src/database.module.ts': `import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';

@Module({
  imports: [TypeOrmModule.forRoot({ type: 'postgres', url: process.env.DATABASE_URL, migrationsRun: true })],
})
export class DatabaseModule {}
`,
  },
  project: 'apps/shop/tsconfig.app.json',
  module: 'dist/apps/shop/src',
  args: ['--project', 'shop'],
  changed: ['libs/database/src/database.module.ts'],
  untouched: ['apps/admin/src/app.module.ts'],
};

export const FIXTURES: Readonly<Record<string, Fixture>> = {
  'a list of migrations, forRoot, CommonJS': listOfMigrations(),
  'a glob of migrations, a DataSource in a file of its own, ES modules': ownDataSource,
  'a DataSource with options of its own beside those of the module, CommonJS': twoOptions,
  'forRootAsync with a factory, a glob of migrations, CommonJS': factory,
  'forRootAsync with a class, no migrations, ES modules': optionsClass,
  'forRootAsync with a registered configuration, CommonJS': registered,
  'a monorepo of Nest’s CLI with the DataSource in a library': monorepo,
};

/**
 * Starts the application by its own entry, stays connected to it, and stops it when its example was heard of.
 * Prints what was heard, and whether the relay stopped.
 */
export const CHECK = `
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
const free = createServer().listen(0, '127.0.0.1');
await once(free, 'listening');
const { port } = free.address();
await new Promise((resolve) => free.close(resolve));
const [folder] = process.argv.slice(2);
const env = { ...process.env, PORT: String(port), NO_COLOR: '1' };
const app = spawn(process.execPath, [\`./\${folder}/main.js\`], { env, stdio: ['ignore', 'pipe', 'inherit'] });
const ended = once(app, 'exit');
setTimeout(() => app.kill('SIGKILL'), 200_000).unref();
let log = '';
const says = (text) =>
  new Promise((resolve) => {
    const look = () => log.includes(text) && resolve();
    app.stdout.on('data', look).on('end', resolve);
    look();
  });
app.stdout.setEncoding('utf8').on('data', (part) => (log += part));
await says('heard of ');
await says('successfully started');
const client = connect(port, '127.0.0.1').on('error', () => {});
await once(client, 'connect');
app.kill('SIGTERM');
const [, signal] = await ended;
client.destroy();
console.log(/heard of \\w+/.exec(log)?.[0], signal, /\\[Outbox\\] stopped/.test(log) ? 'stopped' : log);
`;
