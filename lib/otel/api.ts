import { OutboxConfigurationError } from '../outbox.errors.js';

/** What is used of the API of OpenTelemetry. */
export type OtelApi = Pick<
  typeof import('@opentelemetry/api'),
  'trace' | 'context' | 'propagation' | 'ROOT_CONTEXT' | 'SpanKind' | 'SpanStatusCode' | 'TraceFlags'
>;

/** @throws OutboxConfigurationError `MISSING_PEER` */
export async function loadApi(load = () => import('@opentelemetry/api')): Promise<OtelApi> {
  try {
    return await load();
  } catch (cause) {
    throw new OutboxConfigurationError('MISSING_PEER', 'OutboxTracing needs the package @opentelemetry/api.', {
      cause,
      hint: 'Install it: npm install @opentelemetry/api',
    });
  }
}
