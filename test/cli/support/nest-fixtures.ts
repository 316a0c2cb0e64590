/** The files of applications, as Nest's CLI makes them, with TypeORM. */
type Files = Readonly<Record<string, string>>;

/** As Nest's CLI writes them, but for `declaration`: the types of a client of Prisma have no name through the link to this repository. */
export const COMPILER = {
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

function base(type: 'commonjs' | 'module', end: string): Files {
  return {
    'package.json': json({ name: 'shop', type }),
    'nest-cli.json': json({ sourceRoot: 'src', compilerOptions: { deleteOutDir: true } }),
    'tsconfig.json': json({ compilerOptions: COMPILER, include: ['src'] }),
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

/** CommonJS, with a list of migrations in the module. */
export const COMMON_JS: Files = {
  ...base('commonjs', ''),
  'src/app.module.ts': appModule(
    `
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env.DATABASE_URL,
      migrations: [
        Orders1700000000000, // the first one
      ],
      migrationsRun: true,
    }),
  `,
    `import { Orders1700000000000 } from './migrations/1700000000000-orders';\n`,
  ),
};

/** ES modules, with a glob of migrations in a file of its own that TypeORM's command line reads. */
export const ES_MODULES: Files = {
  ...base('module', '.js'),
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
};
