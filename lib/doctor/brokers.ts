import { isOk, found, type Finding } from '../transports/diagnosis.js';
import type { MessageOptions } from '../outbox-message.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { ExpectedMessages, OutboxTransport } from '../transports/transport.js';
import type { Interview } from './interview.js';

interface BrokerSources {
  readonly options: Pick<ResolvedOptions, 'transports'>;
  openTransport(name: string): Promise<OutboxTransport>;
  expected(transport: string): readonly ExpectedMessages[];
}
interface BacklogEntry {
  readonly name: string;
  readonly topic: string;
  readonly options: string | null;
}

/** Milliseconds for one broker. */
const BROKER_PATIENCE = 8_000;

/** Each transport of this process about its broker. @param outage milliseconds that the tables allow */
export async function askBrokers(
  interview: Interview,
  sources: BrokerSources,
  backlog: readonly BacklogEntry[],
  outage: number | null,
): Promise<void> {
  for (const [transport, definition] of sources.options.transports) {
    const { kind, broker = null } = definition;
    if (kind === 'in-process') continue; // there is no broker
    interview.note((definition.warnings ?? []).map((text) => ofOptions(transport, text)));
    const waiting = backlog.filter(({ name }) => name === transport);
    const expected = [
      ...sources.expected(transport),
      ...waiting.map(({ topic, options }) => ({ topic, options: readOptions(options) })),
    ];
    const answer = await interview.answer(async (signal) => {
      const opened = await sources.openTransport(transport);
      return opened.diagnose?.({ transport, expected, outage }, signal) ?? [];
    }, BROKER_PATIENCE);
    if ('why' in answer) interview.note([unreachable(transport, kind, broker, answer.why)]);
    else if (answer.value.length > 0) interview.note(answer.value);
    else interview.note([silent(transport, kind)]);
  }
}

const ofOptions = (transport: string, text: string): Finding =>
  found(
    'transport-options',
    'warning',
    { text, evidence: { transport } },
    'Messages that count as published may be lost.',
    `Change the options of the transport '${transport}' as the sentence says.`,
  );

const unreachable = (transport: string, kind: string, broker: string | null, why: string): Finding =>
  found(
    'broker',
    'error',
    { text: `The broker of '${transport}' could not be asked: ${why}`, evidence: { transport, kind, broker, why } },
    'Nothing is published to it while it is away; messages wait, and no attempt is charged.',
    'Bring the broker back, or correct address and login in the options.',
  );

const silent = (transport: string, kind: string): Finding =>
  isOk('broker', `The transport '${transport}' (${kind}) tells nothing of its broker.`, { transport, kind });

/** Plain SQL writes anything. */
function readOptions(json: string | null): MessageOptions | null {
  if (json === null) return {};
  try {
    const options: unknown = JSON.parse(json);
    return typeof options === 'object' && options !== null ? (options as MessageOptions) : null;
  } catch {
    return null;
  }
}
