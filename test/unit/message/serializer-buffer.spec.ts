import type { Serializer } from '../../../lib/index.js';
import { encodePayload } from '../../../lib/enqueue/payload.js';

/** As FlatBuffers' `asUint8Array()`, and encoders with a scratch buffer: a view of memory that the next payload overwrites. */
class ReusingSerializer implements Serializer {
  readonly contentType = 'application/json';
  readonly buffer = Buffer.alloc(64);
  serialize(payload: unknown): Uint8Array {
    return this.buffer.subarray(0, this.buffer.write(JSON.stringify(payload)));
  }
  deserialize(bytes: Uint8Array): unknown {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  }
}

describe('a serializer that uses its buffer again', () => {
  it('H6: leaves each message its own payload', () => {
    const serializer = new ReusingSerializer();
    const draft = { subject: 'Event', type: 'x', version: 1, contentType: undefined };
    const encoded = [1111, 2222].map((n) => encodePayload({ ...draft, payload: { n } }, serializer));
    expect(encoded.map(({ bytes }) => String(bytes))).toEqual(['{"n":1111}', '{"n":2222}']);
  });
});
