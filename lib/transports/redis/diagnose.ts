import type { OutboxError } from '../../outbox.errors.js';
import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion } from '../transport.js';
import type { RedisClient } from './client.js';
import { toFailure } from './errors.js';
import type { RedisSettings } from './options.js';
import { findMissing, streamName, streamsOf } from './streams.js';

/** What a server says of itself, by name; `undefined`: it does not tell. */
type Facts = Readonly<Record<string, string>> | undefined;

export async function diagnose(
  client: RedisClient,
  settings: RedisSettings,
  { transport, expected }: BrokerQuestion,
): Promise<Finding[]> {
  const [info, config] = await Promise.all([infoOf(client), configOf(client)]);
  const streams = streamsOf(expected, settings.streamPrefix, STREAMS);
  return [
    ofServer(transport, info),
    ...(info === undefined ? [] : [ofReplicas(transport, info, settings.waitReplicas?.replicas)]),
    ...(config === undefined ? [notTold(transport)] : [ofDisk(transport, config), ofMemory(transport, config)]),
    ...(await ofStreams(client, streams, settings.createStreams, transport)),
  ];
}

/** A refused right is no failure. */
async function ask(client: RedisClient, command: string, args: string[]): Promise<unknown> {
  return client.call(command, args).catch((error: unknown) => {
    const failure = toFailure(error);
    if (!failure.isReply) throw failure;
    return undefined;
  });
}

async function infoOf(client: RedisClient): Promise<Facts> {
  const text = await ask(client, 'info', []);
  if (typeof text !== 'string') return undefined;
  return Object.fromEntries(text.split('\r\n').map((line) => line.split(/:(.*)/s) as [string, string]));
}

/** Managed servers often have no CONFIG. */
async function configOf(client: RedisClient): Promise<Facts> {
  const facts: Record<string, string> = {};
  for (const name of ['appendonly', 'appendfsync', 'no-appendfsync-on-rewrite', 'maxmemory', 'maxmemory-policy']) {
    const reply = await ask(client, 'config', ['get', name]);
    if (!Array.isArray(reply) || reply.length < 2) return undefined;
    facts[name] = String(reply[1]);
  }
  return facts;
}

function ofServer(transport: string, info: Facts): Finding {
  const server = `Redis ${info?.['redis_version'] ?? ''}`.trim();
  const role = info?.['role'] ?? null;
  const evidence = { transport, server, role };
  if (role !== 'slave') return isOk('broker', `${server} answers to '${transport}'.`, evidence);
  return found(
    'broker',
    'error',
    { text: `${server} of '${transport}' is a replica.`, evidence },
    'It takes no messages (READONLY); they wait, and no attempt is charged.',
    'Point url at the master, or give sentinels.',
  );
}

function ofReplicas(transport: string, info: NonNullable<Facts>, wanted: number | undefined): Finding {
  const replicas = Number(info['connected_slaves'] ?? 0);
  const evidence = { transport, replicas, waitReplicas: wanted ?? null };
  if (wanted !== undefined && replicas < wanted)
    return found(
      'replicas',
      'error',
      { text: `The master of '${transport}' has ${replicas} replicas; waitReplicas asks for ${wanted}.`, evidence },
      'No message counts as published, and each try puts one more copy of it into its stream.',
      'Start the replicas, or take waitReplicas down. With min-replicas-to-write the server refuses instead, and no copies arise.',
    );
  if (wanted !== undefined || replicas === 0)
    return isOk('replicas', `The master of '${transport}' has ${replicas} replicas.`, evidence);
  return found(
    'replicas',
    'note',
    { text: `The master of '${transport}' answers before its ${replicas} replicas have a message.`, evidence },
    'A failover to a replica loses what it has not got yet, although it counts as published.',
    'Give waitReplicas: { replicas: 1 } if that matters.',
  );
}

function ofDisk(transport: string, { appendonly = '', appendfsync = '', ...more }: NonNullable<Facts>): Finding {
  const evidence = { transport, appendonly, appendfsync };
  const isAlways = appendfsync === 'always' && more['no-appendfsync-on-rewrite'] !== 'yes';
  if (appendonly === 'yes' && isAlways)
    return isOk('persistence', `The server of '${transport}' syncs its file before it answers.`, evidence);
  const [severity, what, lost] =
    appendonly !== 'yes'
      ? (['warning', 'writes no append-only file', 'A crash loses all messages since the last snapshot'] as const)
      : appendfsync === 'everysec'
        ? (['note', 'syncs its file once a second', 'A crash of the machine loses the last second or two'] as const)
        : ([
            'warning',
            'leaves it to the system when its file is synced',
            'A crash of the machine loses some',
          ] as const);
  return found(
    'persistence',
    severity,
    { text: `The server of '${transport}' ${what}.`, evidence },
    `${lost}, although they count as published.`,
    'CONFIG SET appendonly yes, CONFIG SET appendfsync always, CONFIG SET no-appendfsync-on-rewrite no, and the same in redis.conf; each write then waits for the disk.',
  );
}

function ofMemory(transport: string, config: NonNullable<Facts>): Finding {
  const [policy = '', maxmemory] = [config['maxmemory-policy'], Number(config['maxmemory'])];
  const evidence = { transport, policy, maxmemoryBytes: maxmemory };
  if (!policy.startsWith('allkeys'))
    return isOk('eviction', `The server of '${transport}' evicts no streams (${policy}).`, evidence);
  return found(
    'eviction',
    'warning',
    { text: `The server of '${transport}' may evict streams (maxmemory-policy ${policy}).`, evidence },
    'When memory runs short it deletes whole streams, with all that nobody has read.',
    'CONFIG SET maxmemory-policy noeviction, or volatile-lru: a full server then refuses messages, and they wait.',
  );
}

const notTold = (transport: string): Finding =>
  found(
    'not-asked',
    'note',
    { text: `The server of '${transport}' does not tell its configuration (CONFIG GET).`, evidence: { transport } },
    'What a crash loses, and whether it evicts streams, is not known.',
    'Allow the login +config|get, or look up appendonly, appendfsync and maxmemory-policy at the provider.',
  );

/** Streams that take nothing; of the others, those that nobody reads. */
async function ofStreams(
  client: RedisClient,
  streams: readonly string[],
  createStreams: boolean,
  transport: string,
): Promise<Finding[]> {
  const missing = await findMissing(client, streams, createStreams);
  const errors = new Map(missing.map(({ destination, error }) => [destination, error as OutboxError]));
  return Promise.all(
    streams.map(async (stream) => {
      const [destination, groups] = [streamName(stream), await ask(client, 'xinfo', ['groups', stream])];
      const evidence = { transport, destination, groups: Array.isArray(groups) ? groups.length : null };
      const error = errors.get(destination);
      if (error !== undefined)
        return found(
          'destination-missing',
          'error',
          { text: error.message, evidence },
          'Its messages wait; no attempt is charged.',
          error.hint ?? null,
        );
      if (evidence.groups !== 0) return isOk('destination', `Redis takes messages for ${destination}.`, evidence);
      return found(
        'consumer-missing',
        'note',
        { text: `The ${destination} has no consumer group.`, evidence },
        'Unless somebody reads it by XREAD, what is published arrives nowhere. The stream grows.',
        `XGROUP CREATE ${stream} <group> 0`,
      );
    }),
  );
}

/** Streams that one question names. */
const STREAMS = 200;
