/**
 * Whether a server said no to a statement: it will not be executed. By what the drivers pg and mysql2 put on an error, and those
 * who wrap it. What fails on this side, as for a parameter or a timeout, says nothing of the statement.
 */
export function isRefusal(error: unknown): boolean {
  const { severity, sqlState } = (error ?? {}) as { severity?: unknown; sqlState?: unknown };
  return typeof severity === 'string' || typeof sqlState === 'string';
}
