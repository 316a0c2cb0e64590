import { types } from 'node:util';
import { gzipSync } from 'node:zlib';
import { jsonSerializer } from '../message/json-serializer.js';
import type { SerializedPayload, Serializer } from '../message/serializer.js';
import { refuseOptions, resolveFactory, row, type FactoryTable } from '../options/factory-options.js';
import { integer } from '../options/rules.js';
import { OutboxMessageError } from '../outbox.errors.js';
import { CONTENT_ENCODING, gunzip, isGzip, MAX_BYTES, MOST_BYTES } from './gzip.js';

export interface CompressedOptions {
  /** Compresses payloads of more bytes than this. Default: `4,096` (0–134,217,728). */
  above?: number;
  /**
   * Limits the bytes of a payload before it is compressed, and after it is decompressed. Default: `16,777,216`
   * (1,024–134,217,728).
   */
  maxBytes?: number;
}

const OPTIONS: FactoryTable<CompressedOptions> = {
  factory: 'compressed()',
  rows: { above: row(integer(0, MOST_BYTES), 4_096), maxBytes: row(integer(1_024, MOST_BYTES), MAX_BYTES) },
};

/**
 * For the option `serializer`: compresses with gzip what another one makes, and says so in the header `content-encoding`. What gzip
 * makes no smaller stays as it is, and so do payloads that are given as bytes or as text of a content type.
 *
 * @param serializer whose bytes these are. Default: JSON
 * @throws OutboxConfigurationError `INVALID_OPTIONS`
 */
export function compressed(serializer: Serializer = jsonSerializer, options: CompressedOptions = {}): Serializer {
  const { above, maxBytes } = resolveFactory(OPTIONS, options) as Required<CompressedOptions>;
  const { contentType, headers = [] } = serializer;
  if (headers.includes(CONTENT_ENCODING))
    refuseOptions(OPTIONS.factory, [`the serializer has the header ${CONTENT_ENCODING} already`]);
  return Object.freeze<Serializer>({
    contentType,
    headers: Object.freeze([...headers, CONTENT_ENCODING]),
    serialize(payload, event) {
      const made = serializer.serialize(payload, event);
      const { bytes, headers: own }: SerializedPayload = types.isUint8Array(made) ? { bytes: made } : Object(made);
      if (!types.isUint8Array(bytes) || bytes.byteLength <= above) return made;
      if (bytes.byteLength > maxBytes) throw tooLarge(bytes.byteLength, maxBytes);
      const small = gzipSync(bytes);
      return small.byteLength < bytes.byteLength
        ? { bytes: small, headers: { ...own, [CONTENT_ENCODING]: 'gzip' } }
        : made;
    },
    deserialize(bytes, message) {
      return serializer.deserialize(isGzip(message.headers) ? gunzip(bytes, maxBytes) : bytes, message);
    },
  });
}

function tooLarge(bytes: number, maxBytes: number): OutboxMessageError {
  const text = `payload has ${bytes} bytes before it is compressed, more than maxBytes of compressed() (${maxBytes}).`;
  return new OutboxMessageError('PAYLOAD_TOO_LARGE', text);
}
