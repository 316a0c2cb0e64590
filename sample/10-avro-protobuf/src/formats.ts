import avro from 'avsc';
import protobuf from 'protobufjs';

/** How the payload of an event is written down. */
export interface Format {
  encode(value: unknown): Uint8Array;
  /** @param writer of whoever wrote the bytes; this one is the reader's */
  decode(bytes: Uint8Array, writer: Format): unknown;
}

/** Avro reads bytes by the schema that they were written with, and makes what this one says of them. */
export class Avro implements Format {
  private readonly type: avro.Type;

  constructor(schema: avro.Schema) {
    this.type = avro.Type.forSchema(schema);
  }

  encode(value: unknown): Uint8Array {
    return this.type.toBuffer(value);
  }

  decode(bytes: Uint8Array, writer: Format): unknown {
    const resolver = this.type.createResolver((writer as Avro).type);
    // A record of avsc is of a class of its own: a handler gets a plain object.
    return { ...(this.type.fromBuffer(Buffer.from(bytes), resolver) as object) };
  }
}

/** Fields have numbers: any version reads any other, and what was not written has its default. */
export class Protobuf implements Format {
  private readonly type: protobuf.Type;

  constructor(source: string, message: string) {
    this.type = protobuf.parse(source).root.lookupType(message);
  }

  encode(value: unknown): Uint8Array {
    const problem = this.type.verify(value as object);
    if (problem !== null) throw new TypeError(problem);
    return this.type.encode(value as object).finish();
  }

  decode(bytes: Uint8Array): unknown {
    return this.type.toObject(this.type.decode(bytes), { defaults: true, arrays: true });
  }
}
