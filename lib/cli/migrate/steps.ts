import type { QueryRunner } from 'typeorm';
import { CliError, EXIT } from '../exit-code.js';
import { versionOf, type Tables } from './tables.js';

/** Runs what is missing, and writes it down as TypeORM's own migrator does. @returns names */
export async function up(tables: Tables, runner: QueryRunner): Promise<string[]> {
  const executor = tables.executor(runner);
  executor.transaction = 'each';
  return (await executor.executePendingMigrations()).map(({ name }) => name);
}

/**
 * Back to a version, 0: without tables. Each step and its line in the migrator's table are one transaction.
 * @returns names
 */
export async function down(tables: Tables, runner: QueryRunner, target: number): Promise<string[]> {
  const executor = tables.executor(runner);
  const done: string[] = [];
  const all = tables.dataSource.migrations.toReversed();
  // What drops the tables drops all of them: a refusal leaves them as they are.
  const steps = target === 0 ? all.slice(-1) : all.filter((migration) => versionOf(migration) > target);
  for (const step of steps) {
    const names = (target === 0 ? all : [step]).map(({ name }) => name);
    const written = (await executor.getExecutedMigrations()).filter(({ name }) => names.includes(name));
    await runner.startTransaction();
    try {
      await step.down(runner);
      for (const migration of written) await executor.deleteMigration(migration);
      await runner.commitTransaction();
    } catch (error) {
      await runner.rollbackTransaction().catch(() => {});
      throw explained(error);
    }
    done.push(step.name ?? '');
  }
  return done;
}

/** The hint of the library speaks of its options; here there is a command. */
function explained(error: unknown): unknown {
  const { code, message } = Object(error) as { code?: unknown; message?: string };
  if (code !== 'TABLES_NOT_EMPTY') return error;
  const [what = ''] = (message ?? '').split('\n');
  return new CliError(EXIT.failed, `${what} Let a relay publish them, and requeue or discard what is dead.`, {
    cause: error,
  });
}
