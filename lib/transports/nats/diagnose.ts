import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion } from '../transport.js';
import type { NatsModule } from './client.js';
import { subjectName } from './errors.js';
import { judgeStream } from './judge-stream.js';
import type { NatsSettings } from './options.js';
import { askBeside, JetStreamError, subjectsOf, type JetStreamAsker } from './streams.js';

/** Asks JetStream about itself and about the streams, by questions that make nothing. */
export function diagnose(
  nats: NatsModule,
  settings: NatsSettings,
  { transport, expected, outage }: BrokerQuestion,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { stream, deduplicate } = settings;
  return askBeside(nats, settings, signal, async (asker) => {
    const findings = [await ofBroker(transport, asker)];
    if (findings[0]?.severity === 'error') return findings;
    if (asker.info.max_payload < settings.maxPayloadBytes)
      findings.push(ofPayload(transport, asker.info.max_payload, settings.maxPayloadBytes));
    const streams = new Set<string>();
    for (const subject of subjectsOf(settings, expected)) {
      const names = await asker.streamsOf(subject);
      findings.push(ofSubject(transport, subject, names, stream));
      for (const name of names) streams.add(name);
    }
    for (const name of streams)
      findings.push(...judgeStream(await asker.stream(name), { transport, outage, deduplicate }));
    return findings;
  });
}

async function ofBroker(transport: string, { info, account }: JetStreamAsker): Promise<Finding> {
  const server = `NATS ${info.version}`;
  const evidence = { transport, server };
  const refusal = await account().then(() => undefined, noJetStream);
  if (refusal === undefined) return isOk('broker', `${server} answers to '${transport}'.`, evidence);
  const text = `${server} answers to '${transport}', but its JetStream does not (${refusal}).`;
  const fix = 'Start the server with JetStream (nats-server -js), and enable it for the account of this login.';
  return found('broker', 'error', { text, evidence }, WAIT, fix);
}

/** @throws what says nothing of JetStream: a refused right, a connection that was lost */
function noJetStream(error: unknown): string {
  if (error instanceof JetStreamError) return error.message;
  if ((error as Partial<{ isNoResponders(): boolean }>).isNoResponders?.()) return 'no answer';
  throw error;
}

function ofPayload(transport: string, has: number, given: number): Finding {
  const text = `max_payload of the server is ${has} bytes, and nats() takes messages of up to ${given}.`;
  const evidence = { transport, maxPayloadBytes: has };
  const follows = 'enqueue accepts a message between them, which dies at its first try.';
  const fix = `Give nats() maxPayloadBytes: ${has}, or raise max_payload of the server and restart the relays.`;
  return found('payload-limit', 'warning', { text, evidence }, follows, fix);
}

function ofSubject(
  transport: string,
  subject: string,
  streams: readonly string[],
  expected: string | undefined,
): Finding {
  const [name, all] = [subjectName(subject), streams.join(', ')];
  const evidence = { transport, subject, streams: all };
  if (streams.length === 0) {
    const text = `No stream of NATS takes messages of '${transport}': ${name}.`;
    const fix = `nats stream add --subjects '${subject}', or nats stream edit --subjects of one that is there.`;
    return found('destination-missing', 'error', { text, evidence }, WAIT, fix);
  }
  if (expected === undefined || streams.includes(expected))
    return isOk('destination', `NATS has a stream for ${name}: ${all}.`, evidence);
  const text = `The stream of ${name} is ${all}, and nats() expects ${expected}.`;
  const fix = `Give nats() stream: '${streams[0]}', or move the subject to the stream ${expected}.`;
  return found('other-stream', 'error', { text, evidence }, WAIT, fix);
}

const WAIT = 'Its messages wait; no attempt is charged.';
