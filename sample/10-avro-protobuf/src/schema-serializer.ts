import type { DeserializerContext, PayloadDeserializer, Serializer, SerializerContext } from 'nestjs-outbox';
import { decode, schemaOf } from './registry.js';

export const SCHEMA_ID = 'schema-id';
export const PROTOBUF = 'application/x-protobuf';

/** Writes by the schema of type and version, reads by the id in the header. */
export const schemaSerializer: Serializer = {
  contentType: 'avro/binary',
  headers: [SCHEMA_ID],
  serialize(payload: unknown, { type, version }: SerializerContext) {
    const { id, format } = schemaOf(type, version);
    return { bytes: format.encode(payload), headers: { [SCHEMA_ID]: id } };
  },
  deserialize: (bytes: Uint8Array, { headers }: DeserializerContext) => decode(headers[SCHEMA_ID], bytes),
};

/** The same for the events whose class says that they are Protobuf. */
export const protobufReader: PayloadDeserializer = { ...schemaSerializer, contentType: PROTOBUF };
