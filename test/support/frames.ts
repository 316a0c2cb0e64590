/**
 * Cuts a stream into frames, whatever chunks it comes in, and gives each to `change`.
 *
 * @param sizeOf of the frame that begins here; `undefined` while that is not known
 */
export function eachFrame(
  sizeOf: (bytes: Buffer) => number | undefined,
  change: (frame: Buffer) => Buffer,
): (bytes: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    const changed: Buffer[] = [];
    for (let size = sizeOf(rest); size !== undefined && size <= rest.length; size = sizeOf(rest)) {
      changed.push(change(Buffer.from(rest.subarray(0, size))));
      rest = rest.subarray(size);
    }
    return Buffer.concat(changed);
  };
}
