import type { OwnSession, Step } from '../../data-layers/tables/index.js';
import { CliError, EXIT } from '../exit-code.js';
import type { Tables } from './tables.js';
import { writtenSteps } from './written.js';

/** Runs what is missing, and writes it down where TypeORM's own migrator does. @returns names */
export async function up(tables: Tables, session: OwnSession): Promise<string[]> {
  const written = await writtenSteps(session, tables);
  const version = (await tables.readVersion(session)) ?? 0;
  const missing = tables.steps.filter((step) => step.version > version || written?.names.has(step.name) === false);
  for (const step of missing)
    await together(tables, session, step, async (where) => {
      await step.run(where, 'up');
      await written?.add(where.session, step);
    });
  return missing.map(({ name }) => name);
}

/** Back to a version, 0: without tables. @returns names */
export async function down(tables: Tables, session: OwnSession, target: number): Promise<string[]> {
  const written = await writtenSteps(session, tables);
  const all = tables.steps.toReversed();
  // What drops the tables drops all of them: a refusal leaves them as they are.
  const steps = target === 0 ? all.slice(-1) : all.filter(({ version }) => version > target);
  for (const step of steps)
    await together(tables, session, step, async (where) => {
      await step.run(where, 'down');
      await written?.remove(where.session, target === 0 ? all : [step]);
    }).catch((error: unknown) => {
      throw explained(error);
    });
  return steps.map(({ name }) => name);
}

/**
 * On PostgreSQL what makes or drops the tables is one transaction, with its line. An upgrade has one for each of its statements, and
 * MariaDB and MySQL commit each by itself: what is done is not done twice.
 */
function together(
  { db: { dialect, schema } }: Tables,
  session: OwnSession,
  { version }: Step,
  work: (where: Parameters<Step['run']>[0]) => Promise<void>,
): Promise<void> {
  const run = (own: Pick<OwnSession, 'query' | 'isTransactionActive'>): Promise<void> =>
    work({ session: own, dialect, schema });
  return dialect === 'postgres' && version === 1 ? session.transaction(run) : run(session);
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
