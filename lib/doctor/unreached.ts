import { errorText } from '../observe/redact/error-text.js';
import { isReadOnly, judgeReached } from './server.js';
import { reportOf, type DoctorReport } from './report.js';

/**
 * What is to be said when the database was not reached, so that nothing else could be asked of it.
 * @param rest.isSilent nothing came in time, and nothing but the database was waited for
 * @returns `undefined`: the error is of something else
 */
export function unreachedReport(
  error: unknown,
  { isSilent = false, ...rest }: Pick<DoctorReport, 'at' | 'took'> & { readonly isSilent?: boolean },
): DoctorReport | undefined {
  if (!isSilent && !isOfTheDatabase(error)) return undefined;
  const why = errorText(error);
  const findings = refusesWrites(error)
    ? [judgeReached({ value: undefined }), isReadOnly(why, { why })]
    : [judgeReached({ why })];
  return reportOf(findings, { ...rest, outage: null });
}

/** Of a replica, and of settings that forbid writes: the outbox writes when it opens. */
const READ_ONLY: ReadonlySet<unknown> = new Set([
  '25006',
  'ER_OPTION_PREVENTS_STATEMENT',
  'ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION',
]);

function refusesWrites(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(refusesWrites);
  return READ_ONLY.has(Object(error)['code']);
}

/** By what a driver puts on an error: how the way to the server failed, or what the server said. Of a table (class 42), it was reached. */
function isOfTheDatabase(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isOfTheDatabase);
  const { code, severity, sqlState, syscall } = (error ?? {}) as Record<string, unknown>;
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true;
  const state = typeof sqlState === 'string' ? sqlState : typeof severity === 'string' ? code : undefined;
  return typeof state === 'string' && !/^42(?!000)/.test(state);
}
