import type { ExpectedMessages, MissingDestination } from '../transport.js';
import { abortable } from '../abortable.js';
import { openConnection, type NatsModule, type OpenedConnection, type ServerInfo } from './client.js';
import { noStream, subjectName } from './errors.js';
import type { NatsSettings } from './options.js';

/** What JetStream says of one stream, as far as it is of interest here. */
export interface StreamFacts {
  readonly config: {
    readonly name: string;
    readonly retention: 'limits' | 'interest' | 'workqueue';
    readonly storage: 'file' | 'memory';
    readonly discard: 'old' | 'new';
    readonly num_replicas: number;
    /** Nanoseconds. */
    readonly duplicate_window: number;
    readonly max_msgs: number;
    readonly max_bytes: number;
    readonly max_msgs_per_subject: number;
    readonly discard_new_per_subject?: boolean;
    readonly no_ack?: boolean;
  };
  readonly state: { readonly messages: number; readonly bytes: number; readonly consumer_count: number };
}

/** Asks JetStream, over a connection of its own. What it answers with an error is thrown. */
export interface JetStreamAsker {
  readonly info: ServerInfo;
  account(): Promise<{ readonly storage: number; readonly memory: number }>;
  /** Names of the streams that have the subject. */
  streamsOf(subject: string): Promise<readonly string[]>;
  stream(name: string): Promise<StreamFacts>;
}

export async function askBeside<Answer>(
  nats: NatsModule,
  settings: NatsSettings,
  signal: AbortSignal,
  ask: (asker: JetStreamAsker) => Promise<Answer>,
): Promise<Answer> {
  const opened = await openConnection(nats, settings.client, signal);
  try {
    return await abortable(ask(asker(opened, settings.domain)), signal);
  } finally {
    opened.destroy();
  }
}

function asker({ connection }: OpenedConnection, domain: string | undefined): JetStreamAsker {
  const api = domain === undefined ? '$JS.API' : `$JS.${domain}.API`;
  const ask = async (question: string, what?: object): Promise<unknown> => {
    const body = what === undefined ? '' : JSON.stringify(what);
    const answer = JSON.parse((await connection.request(`${api}.${question}`, body, { timeout: ANSWER })).string()) as {
      error?: ApiError;
    };
    if (answer.error !== undefined) throw new JetStreamError(answer.error);
    return answer;
  };
  return {
    info: connection.info!,
    account: async () => (await ask('INFO')) as { storage: number; memory: number },
    streamsOf: async (subject) =>
      ((await ask('STREAM.NAMES', { subject })) as { streams: string[] | null }).streams ?? [],
    stream: async (name) => (await ask(`STREAM.INFO.${name}`)) as StreamFacts,
  };
}

interface ApiError {
  readonly err_code: number;
  readonly description: string;
}
/** JetStream answered a question with an error. */
export class JetStreamError extends Error {
  constructor(error: ApiError) {
    super(`${error.err_code}: ${error.description}`);
  }
}

/** Subjects that messages will have, as far as it is known before there is one. */
export function subjectsOf({ subjectPrefix }: NatsSettings, expected: readonly ExpectedMessages[]): string[] {
  return [...new Set(expected.map(({ topic }) => subjectPrefix + topic))].slice(0, MOST);
}

export async function findMissing(
  nats: NatsModule,
  settings: NatsSettings,
  expected: readonly ExpectedMessages[],
  signal: AbortSignal,
): Promise<MissingDestination[]> {
  const subjects = settings.checkDestinations ? subjectsOf(settings, expected) : [];
  if (subjects.length === 0) return [];
  return askBeside(nats, settings, signal, async ({ streamsOf }) => {
    const missing: MissingDestination[] = [];
    for (const subject of subjects)
      if ((await streamsOf(subject)).length === 0)
        missing.push({ destination: subjectName(subject), error: noStream(subject) });
    return missing;
  });
}

/** Subjects of one question. */
const MOST = 200;
/** Milliseconds for one answer. */
const ANSWER = 5_000;
