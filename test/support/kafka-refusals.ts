import { eachFrame } from './frames.js';
import type { Interceptor } from './tcp-proxy.js';

const PRODUCE = 0;
/** No broker knows them: it stores nothing and says so of every partition. */
const UNKNOWN_ACKS = 2;
/** Of produce requests whose parts stand where they are looked for; kafkajs and Kafka 4 agree on 7. */
const VERSIONS = [3, 8];

/**
 * Makes a real broker refuse produce requests with any code: on their way they ask for acks that do not exist, and the
 * code of the broker's refusal (21, INVALID_REQUIRED_ACKS) is replaced. Set `proxy.intercept = () => refusals.connection()`.
 */
export class KafkaRefusals {
  /** What requests from now on are refused with; `undefined`: they pass. */
  code: number | undefined;
  /** Refusals until it takes requests again. */
  left = Infinity;
  /** Instead of a refusal: the last byte of the records is another one when it arrives. */
  corrupting = false;
  refused = 0;

  connection(): Interceptor {
    /** Codes by correlation id, with the version of the request. */
    const waiting = new Map<number, { readonly code: number; readonly version: number }>();
    return {
      up: eachFrame(sizeOf, (frame) => this.request(frame, waiting)),
      down: eachFrame(sizeOf, (frame) => this.answer(frame, waiting)),
    };
  }

  private request(frame: Buffer, waiting: Map<number, { code: number; version: number }>): Buffer {
    const version = frame.readInt16BE(6);
    if (frame.readInt16BE(4) !== PRODUCE || (this.code === undefined && !this.corrupting)) return frame;
    if (this.left === 0) return frame;
    this.left -= 1;
    if (version < VERSIONS[0]! || version > VERSIONS[1]!) throw new Error(`Produce, version ${version}`);
    this.refused += 1;
    if (this.code === undefined) {
      frame.writeUInt8(frame.at(-1)! ^ 1, frame.length - 1);
      return frame;
    }
    waiting.set(frame.readInt32BE(8), { code: this.code, version });
    const transactionalId = afterString(frame, 12);
    frame.writeInt16BE(UNKNOWN_ACKS, afterString(frame, transactionalId));
    return frame;
  }

  private answer(frame: Buffer, waiting: Map<number, { code: number; version: number }>): Buffer {
    const id = frame.readInt32BE(4);
    const refusal = waiting.get(id);
    if (refusal === undefined) return frame;
    waiting.delete(id);
    let at = 12;
    for (let topics = frame.readInt32BE(8); topics > 0; topics -= 1) {
      at = afterString(frame, at);
      const partitions = frame.readInt32BE(at);
      at += 4;
      for (let n = 0; n < partitions; n += 1) {
        frame.writeInt16BE(refusal.code, at + 4);
        // Partition, code, base offset, append time and, from version 5 on, start of the log.
        at += refusal.version < 5 ? 22 : 30;
      }
    }
    return frame;
  }
}

function sizeOf(bytes: Buffer): number | undefined {
  return bytes.length < 4 ? undefined : 4 + bytes.readInt32BE(0);
}

/** Where a nullable string that begins at `at` ends. */
function afterString(frame: Buffer, at: number): number {
  return at + 2 + Math.max(0, frame.readInt16BE(at));
}
