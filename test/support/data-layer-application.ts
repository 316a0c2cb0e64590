import { join } from 'node:path';
import { NestApplication } from '../cli/support/nest-application.js';
import { COMPILER } from '../cli/support/nest-fixtures.js';

const COMPILE = join(process.cwd(), 'node_modules', 'typescript7', 'bin', 'tsc');
/** `prisma generate` asks for the engine of `prisma migrate`, which it does not run. */
const NO_DOWNLOAD = { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' };

/** An application of one data layer in a folder of its own, compiled; with `prisma/schema.prisma` its client is generated first. */
export async function compiledApplication(files: Record<string, string>, url: string): Promise<NestApplication> {
  const project = {
    'package.json': JSON.stringify({ name: 'shop', type: 'module' }),
    'tsconfig.json': JSON.stringify({ compilerOptions: COMPILER, include: ['src'] }),
  };
  const app = await NestApplication.create({ ...files, ...project }, { ...NO_DOWNLOAD, DATABASE_URL: url });
  const generate = ['node_modules/prisma/build/index.js', 'generate'];
  for (const command of files['prisma/schema.prisma'] === undefined ? [[COMPILE]] : [generate, [COMPILE]]) {
    const { code, stdout, stderr } = await app.node(command);
    if (code === 0) continue;
    app.remove();
    throw new Error(`${command.join(' ')}: ${stdout}${stderr}`);
  }
  return app;
}
