import type { ProtocolRequest, RequestSender } from './kafka-answers.js';

const METADATA = 3;
/** Lengths of a list of topics, from version 1 on. */
const ALL = -1;
const NONE = 0;

/**
 * A new producer knows no topic yet, and kafkajs takes that for a question about all of them: it does not open while any
 * partition in the cluster, whosever it is, has no leader. From here on it asks about none; brokers and controller are in
 * that answer too.
 */
export function askAboutNoOthers(sender: RequestSender): void {
  const send = sender.send.bind(sender);
  sender.send = (protocol) =>
    send(isQuestion(protocol) ? { ...protocol, request: narrowed(protocol.request) } : protocol);
}

function isQuestion({ request }: ProtocolRequest): boolean {
  return request.apiKey === METADATA && request.apiVersion >= 1;
}

function narrowed(request: ProtocolRequest['request']): ProtocolRequest['request'] {
  const encode = async (): Promise<{ readonly buffer: Buffer }> => {
    const encoded = await request.encode();
    // A view: what is written here is what is sent.
    if (encoded.buffer.readInt32BE(0) === ALL) encoded.buffer.writeInt32BE(NONE, 0);
    return encoded;
  };
  return { ...request, encode };
}
