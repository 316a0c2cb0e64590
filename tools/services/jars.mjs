import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Throws with one sentence when Java 17+ or mvn are missing. */
export async function requireJava(product) {
  const { stderr } = await run('java', ['-version']).catch(() => ({ stderr: '' }));
  const version = Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0);
  if (version < 17) throw new Error(`${product} needs Java 17 or newer`);
  await run('mvn', ['-v']).catch(() => {
    throw new Error(`${product}'s jars are fetched with mvn, which is not installed`);
  });
}

/** The folder of jars that the pom lists, fetched once per pom and kept. */
export async function jarsOf(pom, name) {
  const id = createHash('sha256')
    .update(await readFile(pom))
    .digest('hex')
    .slice(0, 12);
  const libs = join(root, 'node_modules', '.cache', 'nestjs-outbox', `${name}-${id}`);
  if (existsSync(libs)) return libs;
  const staging = `${libs}.${process.pid}`;
  await mkdir(staging, { recursive: true });
  const goal = ['-q', '-B', '-f', pom, 'dependency:copy-dependencies', `-DoutputDirectory=${staging}`];
  await run('mvn', goal, { timeout: 300_000, maxBuffer: 16 * 1024 * 1024 });
  await rename(staging, libs).catch(() => rm(staging, { recursive: true, force: true }));
  return libs;
}
