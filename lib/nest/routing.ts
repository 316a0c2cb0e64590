import { misconfigured } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { IN_PROCESS } from '../transports/in-process/in-process.js';
import { list } from '../options/show.js';
import type { FoundHandler } from './handler-checks.js';

/** Throws for a handler that no event will ever reach: what is routed is fixed at enqueue, not by who listens. */
export function checkRouting(handlers: readonly FoundHandler[], outboxes: readonly ResolvedOptions[]): void {
  for (const handler of handlers) {
    if (!outboxes.some((options) => reaches(handler, options))) refuseUnrouted(handler, outboxes);
  }
}

/** Where messages without a class go is not known before they come: any in-process transport will do. */
function reaches({ metadata }: FoundHandler, options: ResolvedOptions): boolean {
  const names =
    metadata === undefined ? [...options.transports.keys()] : (metadata.transports ?? [options.defaultTransport]);
  return names.some((name) => options.transports.get(name)?.kind === IN_PROCESS);
}

function refuseUnrouted(
  { name, type, metadata, eventClass }: FoundHandler,
  outboxes: readonly ResolvedOptions[],
): never {
  const local = outboxes.flatMap(({ transports }) =>
    [...transports].filter(([, { kind }]) => kind === IN_PROCESS),
  )[0]?.[0];
  const targets = metadata?.transports ?? [...new Set(outboxes.map(({ defaultTransport }) => defaultTransport))];
  const problem =
    metadata === undefined
      ? `${name} handles '${type}', but no transport is inProcess()`
      : `${name} handles '${type}', which goes to ${list(targets)} and to no inProcess() transport`;
  const route = `add \`transport: [${list([...targets, local ?? 'local'])}]\` to @OutboxEvent of ${eventClass?.name}`;
  const declare = 'add `local: inProcess()` to the transports of OutboxModule';
  const steps = [...(local === undefined ? [declare] : []), ...(metadata === undefined ? [] : [route])].join(', and ');
  misconfigured(`${problem}.`, `${steps.charAt(0).toUpperCase()}${steps.slice(1)}.`, 'HANDLER_NOT_ROUTED');
}
