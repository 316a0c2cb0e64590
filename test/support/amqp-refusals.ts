import { eachFrame } from './frames.js';
import type { Interceptor } from './tcp-proxy.js';

const METHOD = 1;
const FRAME_END = 206;
/** Class and method. */
const CONNECTION_CLOSE = [10, 50] as const;
const CONNECTION_CLOSE_OK = [10, 51] as const;
const CHANNEL_CLOSE = [20, 40] as const;
const CHANNEL_CLOSE_OK = [20, 41] as const;
const BASIC_PUBLISH = [60, 40] as const;
type Method = readonly [classId: number, methodId: number];

export interface AmqpRefusal {
  readonly closes: 'channel' | 'connection';
  readonly code: number;
}

/**
 * Makes a real broker close the channel or the connection over messages with one routing key, with any code: the message is
 * kept back, the broker is asked to close as a client would ask it, and its consent becomes a close of its own. What was sent
 * before is confirmed as ever, what comes after is not seen by the broker.
 */
export class AmqpRefusals {
  /** Of connections from now on and of those that are open; `undefined`: messages pass. */
  refusal: AmqpRefusal | undefined;
  refused = 0;

  constructor(private readonly routingKey: string) {}

  connection(): Interceptor {
    /** By channel, 0 for the connection: what the client is going to be told. */
    const closing = new Map<number, AmqpRefusal>();
    return {
      up: eachFrame(sizeOf, (frame) => this.fromClient(frame, closing)),
      down: eachFrame(sizeOf, (frame) => fromBroker(frame, closing)),
    };
  }

  private fromClient(frame: Buffer, closing: Map<number, AmqpRefusal>): Buffer {
    const channel = channelOf(frame);
    if (closing.has(0)) return NOTHING;
    if (closing.has(channel)) {
      if (isMethod(frame, CHANNEL_CLOSE_OK)) closing.delete(channel);
      return NOTHING;
    }
    const { refusal } = this;
    if (refusal === undefined || !isMethod(frame, BASIC_PUBLISH) || routingKeyOf(frame) !== this.routingKey)
      return frame;
    this.refused += 1;
    const closed = refusal.closes === 'channel' ? channel : 0;
    closing.set(closed, refusal);
    return close(closed, 200);
  }
}

function fromBroker(frame: Buffer, closing: Map<number, AmqpRefusal>): Buffer {
  const channel = channelOf(frame);
  const refusal = closing.get(channel);
  const isConsent = isMethod(frame, channel === 0 ? CONNECTION_CLOSE_OK : CHANNEL_CLOSE_OK);
  return refusal !== undefined && isConsent ? close(channel, refusal.code) : frame;
}

const NOTHING = Buffer.alloc(0);

function close(channel: number, code: number): Buffer {
  const [classId, methodId] = channel === 0 ? CONNECTION_CLOSE : CHANNEL_CLOSE;
  const text = `refused with ${code}`;
  const size = 11 + text.length;
  const frame = Buffer.alloc(8 + size);
  let at = frame.writeUInt8(METHOD, 0);
  at = frame.writeUInt16BE(channel, at);
  at = frame.writeUInt32BE(size, at);
  at = frame.writeUInt16BE(classId, at);
  at = frame.writeUInt16BE(methodId, at);
  at = frame.writeUInt16BE(code, at);
  at = frame.writeUInt8(text.length, at);
  at += frame.write(text, at, 'latin1');
  // The method that is to blame, which nobody reads: two numbers that stay 0.
  frame.writeUInt8(FRAME_END, at + 4);
  return frame;
}

function sizeOf(bytes: Buffer): number | undefined {
  if (bytes.length < 7) return undefined;
  // The header of the protocol is the only thing that is no frame.
  return bytes.toString('latin1', 0, 4) === 'AMQP' ? 8 : 8 + bytes.readUInt32BE(3);
}

function channelOf(frame: Buffer): number {
  return frame.length === 8 ? 0 : frame.readUInt16BE(1);
}

function isMethod(frame: Buffer, [classId, methodId]: Method): boolean {
  return (
    frame.length >= 12 && frame[0] === METHOD && frame.readUInt16BE(7) === classId && frame.readUInt16BE(9) === methodId
  );
}

function routingKeyOf(frame: Buffer): string {
  const exchange = 13;
  const key = exchange + 1 + frame.readUInt8(exchange);
  return frame.toString('utf8', key + 1, key + 1 + frame.readUInt8(key));
}
