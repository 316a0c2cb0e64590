import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion } from '../transport.js';
import type { RedisClient } from './client.js';
import { toFailure } from './errors.js';
import type { RedisSettings } from './options.js';
import { streamName, streamsOf, typeOf } from './streams.js';

/** What a server says of itself, by name; `undefined`: it does not tell. */
type Facts = Readonly<Record<string, string>> | undefined;

export async function diagnose(
  client: RedisClient,
  settings: RedisSettings,
  { transport, expected }: BrokerQuestion,
): Promise<Finding[]> {
  const [info, config] = await Promise.all([infoOf(client), configOf(client)]);
  const streams = streamsOf(expected, settings.streamPrefix, STREAMS);
  const places = await Promise.all(streams.map(async (stream) => ofStream(client, stream, settings, transport)));
  return [
    ofServer(transport, info),
    ...(info === undefined ? [] : [ofReplicas(transport, info, settings.waitReplicas?.replicas)]),
    ...(config === undefined ? [notTold(transport)] : [ofDisk(transport, config), ofMemory(transport, config)]),
    ...places,
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
  for (const name of ['appendonly', 'appendfsync', 'maxmemory', 'maxmemory-policy']) {
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

function ofDisk(transport: string, { appendonly = '', appendfsync = '' }: NonNullable<Facts>): Finding {
  const evidence = { transport, appendonly, appendfsync };
  if (appendonly !== 'yes')
    return found(
      'persistence',
      'warning',
      { text: `The server of '${transport}' writes no append-only file.`, evidence },
      'A crash loses all messages since the last snapshot, although they count as published.',
      'CONFIG SET appendonly yes, and the same in redis.conf.',
    );
  if (appendfsync === 'always')
    return isOk('persistence', `The server of '${transport}' syncs its file before it answers.`, evidence);
  return found(
    'persistence',
    appendfsync === 'no' ? 'warning' : 'note',
    { text: `The server of '${transport}' answers before its file is on disk (appendfsync ${appendfsync}).`, evidence },
    appendfsync === 'no'
      ? 'A crash of the machine loses what the operating system has not written yet.'
      : 'A crash of the machine loses the messages of the last second or two, although they count as published.',
    'CONFIG SET appendfsync always, if that matters; each write then waits for the disk.',
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

async function ofStream(
  client: RedisClient,
  stream: string,
  { createStreams, maxLength }: RedisSettings,
  transport: string,
): Promise<Finding> {
  const [type, name] = [await typeOf(client, stream), streamName(stream)];
  const evidence = { transport, destination: name, type: String(type) };
  if (typeof type !== 'string')
    return found(
      'not-asked',
      'note',
      { text: `Redis does not tell whether there is the ${name} (${type.code}).`, evidence },
      'Whether messages get there is not known.',
      'Allow the login +type and +xinfo.',
    );
  if (type === 'none' && createStreams) return isOk('destination', `The first message makes the ${name}.`, evidence);
  if (type === 'none')
    return found(
      'destination-missing',
      'error',
      { text: `Redis has no ${name}, and createStreams is false.`, evidence },
      'Its messages wait; no attempt is charged.',
      `XGROUP CREATE ${stream} <group> 0 MKSTREAM`,
    );
  if (type !== 'stream')
    return found(
      'destination-missing',
      'error',
      { text: `The key of the ${name} holds a ${type}.`, evidence },
      'Its messages wait; no attempt is charged.',
      'Rename the key, or give streamPrefix.',
    );
  return ofGroups(name, evidence, maxLength, await ask(client, 'xinfo', ['groups', stream]));
}

function ofGroups(name: string, known: Finding['evidence'], maxLength: number | undefined, reply: unknown): Finding {
  const groups = Array.isArray(reply) ? (reply as unknown[][]).map(pairs) : undefined;
  const lag = Math.max(0, ...(groups ?? []).map((group) => Number(group['lag'] ?? 0)));
  const evidence = { ...known, groups: groups?.length ?? null, lag };
  if (groups?.length === 0)
    return found(
      'consumer-missing',
      'note',
      { text: `The ${name} has no consumer group.`, evidence },
      'Unless somebody reads it by XREAD, what is published arrives nowhere. The stream grows.',
      'XGROUP CREATE <stream> <group> 0',
    );
  if (maxLength !== undefined && lag > maxLength / 2)
    return found(
      'trimming',
      'warning',
      { text: `A consumer group of the ${name} is ${lag} entries behind; maxLength is ${maxLength}.`, evidence },
      'What it has not read when the stream is longer than that is dropped.',
      'Start more consumers, or raise maxLength.',
    );
  return isOk('destination', `Redis has the ${name}.`, evidence);
}

function pairs(flat: unknown[]): Record<string, unknown> {
  return Object.fromEntries(flat.flatMap((name, n) => (n % 2 === 0 ? [[String(name), flat[n + 1]]] : [])));
}

/** Streams that one question names. */
const STREAMS = 200;
