import { Avro, type Format, Protobuf } from './formats.js';

interface Schema {
  /** Given once, and to no other schema. */
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly format: Format;
}

const ORDER = { type: 'record', name: 'OrderPlaced' } as const;
const ORDER_ID = { name: 'orderId', type: 'string' } as const;
const TOTAL = { name: 'total', type: 'double' } as const;

/** What a schema registry holds. Here it is a file that shop and billing share. */
const SCHEMAS: readonly Schema[] = [
  { id: '101', type: 'order.placed', version: 1, format: new Avro({ ...ORDER, fields: [ORDER_ID, TOTAL] }) },
  {
    id: '102',
    type: 'order.placed',
    version: 2,
    format: new Avro({
      ...ORDER,
      fields: [ORDER_ID, TOTAL, { name: 'currency', type: 'string', default: 'EUR' }],
    }),
  },
  {
    id: '201',
    type: 'parcel.sent',
    version: 1,
    format: new Protobuf('syntax = "proto3"; message Parcel { string orderId = 1; uint32 grams = 2; }', 'Parcel'),
  },
  {
    id: '202',
    type: 'parcel.sent',
    version: 2,
    format: new Protobuf(
      'syntax = "proto3"; message Parcel { string orderId = 1; uint32 grams = 2; repeated string stops = 3; }',
      'Parcel',
    ),
  },
];

/** By which an event is written. */
export function schemaOf(type: string, version: number): Schema {
  return found(
    SCHEMAS.find((one) => one.type === type && one.version === version),
    `version ${version} of ${type}`,
  );
}

/** By the id alone: the payload as the newest schema of its type has it. */
export function decode(id: unknown, bytes: Uint8Array): unknown {
  const writer = found(
    SCHEMAS.find((one) => one.id === id),
    `the id ${String(id)}`,
  );
  const newest = SCHEMAS.findLast(({ type }) => type === writer.type)!;
  return newest.format.decode(bytes, writer.format);
}

function found(schema: Schema | undefined, what: string): Schema {
  if (schema === undefined) throw new Error(`There is no schema for ${what}.`);
  return schema;
}
