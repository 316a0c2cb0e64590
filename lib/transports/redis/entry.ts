import type { OutboxMessage } from '../../outbox-message.js';
import { createEnvelope } from '../envelope.js';
import type { RedisArgument } from './client.js';
import { KEY_FIELD, PAYLOAD_FIELD } from './limits.js';
import type { RedisSettings } from './options.js';

/** The arguments of XADD for a message. */
export type EntryEncoder = (message: OutboxMessage) => RedisArgument[];

/** Decides once what is needed. A tombstone has no field `payload`; a header of several values is as many fields of one name. */
export function createEntry(
  settings: Pick<RedisSettings, 'createStreams' | 'headers' | 'maxLength' | 'streamPrefix'>,
): EntryEncoder {
  const { createStreams, headers, maxLength, streamPrefix } = settings;
  const envelope = createEnvelope({ headers });
  const how = [
    ...(createStreams ? [] : ['NOMKSTREAM']),
    ...(maxLength === undefined ? [] : ['MAXLEN', '~', String(maxLength)]),
    '*',
  ];
  return (message) => {
    const args: RedisArgument[] = [streamPrefix + message.topic, ...how];
    const fields = envelope(message);
    for (const name of Object.keys(fields)) {
      const value = fields[name]!;
      if (Array.isArray(value)) for (const one of value as (string | Buffer)[]) args.push(name, one);
      else args.push(name, value as string | Buffer);
    }
    if (message.key !== null) args.push(KEY_FIELD, message.key);
    if (message.body !== null) args.push(PAYLOAD_FIELD, message.body);
    return args;
  };
}
