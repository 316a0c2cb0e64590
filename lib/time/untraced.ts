/** Where OpenTelemetry keeps its API, and what its tracers look at; the same in every copy of it, and in none of ours. */
const API = Symbol.for('opentelemetry.js.api.1');
const SUPPRESSED = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');

interface Context {
  setValue(key: symbol, value: unknown): Context;
}
interface ContextManager {
  active(): Context;
  with<T>(context: Context, work: () => T): T;
}

/**
 * Runs what no request asked for without spans, where OpenTelemetry is in the process: a relay that has nothing to do asks the
 * database some times a second. What is called in a clean scope from there has its spans.
 */
export function untraced<T>(work: () => T): T {
  const contexts = (globalThis as { [API]?: { context?: Partial<ContextManager> } })[API]?.context;
  if (typeof contexts?.with !== 'function' || typeof contexts.active !== 'function') return work();
  return contexts.with(contexts.active().setValue(SUPPRESSED, true), work);
}
