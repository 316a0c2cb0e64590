import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { eachFrame } from './frames.js';

const [PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE] = [0, 3, 17, 18, 36];
/** The oldest version that kafkajs knows of each. */
const VERSIONS: readonly [key: number, first: number, last: number][] = [
  [PRODUCE, 0, 2],
  [METADATA, 0, 1],
  [SASL_HANDSHAKE, 0, 1],
  [API_VERSIONS, 0, 0],
  [SASL_AUTHENTICATE, 0, 0],
];

/**
 * One broker with one topic, `t`, that takes every token and every record. For what a real one need not be there for: what
 * happens before a request is sent to it.
 */
export class FakeKafka {
  private readonly sockets = new Set<Socket>();
  private readonly server: Server;
  private offset = 0;

  private constructor() {
    this.server = createServer((socket) => {
      this.sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
      const read = eachFrame(sizeOf, (frame) => {
        const body = this.answer(frame.readInt16BE(4));
        socket.write(Buffer.concat([int(4, 4 + body.length), frame.subarray(8, 12), body]));
        return frame;
      });
      socket.on('data', (bytes) => void read(bytes));
    });
  }

  static async start(): Promise<FakeKafka> {
    const fake = new FakeKafka();
    fake.server.listen(0, '127.0.0.1');
    await once(fake.server, 'listening');
    return fake;
  }
  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }
  /** Takes no connections any more, and ends those that there are. */
  close(): void {
    this.server.close();
    this.cut();
  }

  private answer(key: number): Buffer {
    if (key === API_VERSIONS) return Buffer.concat([NO_ERROR, list(VERSIONS.map((row) => ints(2, ...row)))]);
    if (key === SASL_HANDSHAKE) return Buffer.concat([NO_ERROR, list([text('OAUTHBEARER')])]);
    if (key === SASL_AUTHENTICATE) return Buffer.concat([NO_ERROR, int(2, -1), int(4, 0)]);
    if (key === METADATA) return this.metadata();
    const stored = Buffer.concat([int(4, 0), NO_ERROR, ints(4, 0, this.offset++), ints(4, -1, -1)]);
    return Buffer.concat([list([Buffer.concat([text('t'), list([stored])])]), int(4, 0)]);
  }
  private metadata(): Buffer {
    const broker = Buffer.concat([int(4, 1), text('127.0.0.1'), int(4, this.port), int(2, -1)]);
    const partition = Buffer.concat([NO_ERROR, ints(4, 0, 1), list([int(4, 1)]), list([int(4, 1)])]);
    const topic = Buffer.concat([NO_ERROR, text('t'), Buffer.of(0), list([partition])]);
    return Buffer.concat([list([broker]), int(4, 1), list([topic])]);
  }
}

const NO_ERROR = int(2, 0);

function sizeOf(bytes: Buffer): number | undefined {
  return bytes.length < 4 ? undefined : 4 + bytes.readInt32BE(0);
}
function int(size: 2 | 4, value: number): Buffer {
  const bytes = Buffer.alloc(size);
  bytes.writeIntBE(value, 0, size);
  return bytes;
}
function ints(size: 2 | 4, ...values: number[]): Buffer {
  return Buffer.concat(values.map((value) => int(size, value)));
}
function text(value: string): Buffer {
  return Buffer.concat([int(2, value.length), Buffer.from(value)]);
}
function list(items: readonly Buffer[]): Buffer {
  return Buffer.concat([int(4, items.length), ...items]);
}
