import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion } from '../transport.js';
import type { NatsModule } from './client.js';
import { subjectName } from './errors.js';
import type { NatsSettings } from './options.js';
import { judgeStream } from './judge-stream.js';
import { askBeside, JetStreamError, subjectsOf, type JetStreamAsker } from './streams.js';

/** Asks JetStream about itself and about the streams, by questions that make nothing. */
export function diagnose(
  nats: NatsModule,
  settings: NatsSettings,
  { transport, expected, outage }: BrokerQuestion,
  signal: AbortSignal,
): Promise<Finding[]> {
  const subjects = subjectsOf(settings, expected);
  const { stream, deduplicate } = settings;
  return askBeside(nats, settings, signal, async (asker) => {
    const broker = await ofBroker(transport, asker, settings);
    if (broker.some(({ code, severity }) => code === 'broker' && severity === 'error')) return broker;
    const streams = new Set(stream === undefined || subjects.length > 0 ? [] : [stream]);
    const findings: Finding[] = [];
    for (const subject of subjects) {
      const names = await asker.streamsOf(subject);
      findings.push(ofSubject(transport, subject, names, stream));
      for (const name of names) streams.add(name);
    }
    for (const name of streams)
      findings.push(...judgeStream(await asker.stream(name), { transport, outage, deduplicate, server: asker.info }));
    return [...broker, ...findings];
  });
}

async function ofBroker(
  transport: string,
  { info, account }: JetStreamAsker,
  { maxPayloadBytes }: NatsSettings,
): Promise<Finding[]> {
  const server = `NATS ${info.version}`;
  const evidence = { transport, server, maxPayloadBytes: info.max_payload };
  const refusal = await account().then(
    () => undefined,
    (error: unknown) => noJetStream(error),
  );
  if (refusal !== undefined)
    return [
      found(
        'broker',
        'error',
        { text: `${server} answers to '${transport}', but its JetStream does not (${refusal}).`, evidence },
        'No stream takes a message: they wait, and no attempt is charged.',
        'Start the server with JetStream (nats-server -js), and enable it for the account of this login.',
      ),
    ];
  const all = [isOk('broker', `${server} answers to '${transport}'.`, evidence)];
  if (info.max_payload < maxPayloadBytes)
    all.push(
      found(
        'payload-limit',
        'warning',
        {
          text: `max_payload of the server is ${info.max_payload} bytes, and nats() takes messages of up to ${maxPayloadBytes}.`,
          evidence,
        },
        'A message between them is accepted by enqueue, and dies at its first try.',
        `Give nats() maxPayloadBytes: ${info.max_payload}, or raise max_payload of the server.`,
      ),
    );
  return all;
}

/** @throws what says nothing of JetStream: a refused right, a connection that was lost */
function noJetStream(error: unknown): string {
  if (error instanceof JetStreamError) return error.message;
  if ((error as Partial<{ isNoResponders(): boolean }>).isNoResponders?.()) return 'no answer';
  throw error;
}

function ofSubject(
  transport: string,
  subject: string,
  streams: readonly string[],
  expected: string | undefined,
): Finding {
  const evidence = { transport, subject, streams: streams.join(', ') };
  const name = subjectName(subject);
  if (streams.length === 0)
    return found(
      'destination-missing',
      'error',
      { text: `No stream of NATS takes messages of '${transport}': ${name}.`, evidence },
      'Its messages wait; no attempt is charged.',
      `nats stream add --subjects '${subject}', or add the subject to a stream: nats stream edit --subjects.`,
    );
  if (expected !== undefined && !streams.includes(expected))
    return found(
      'other-stream',
      'error',
      { text: `The stream of ${name} is ${streams.join(', ')}, and nats() expects ${expected}.`, evidence },
      'The stream refuses its messages: they wait, and no attempt is charged.',
      `Give nats() stream: '${streams[0]}', or move the subject to the stream ${expected}.`,
    );
  return isOk('destination', `NATS has a stream for ${name}: ${streams.join(', ')}.`, evidence);
}
