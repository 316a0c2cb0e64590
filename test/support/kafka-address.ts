import { eachFrame } from './frames.js';
import type { Interceptor } from './tcp-proxy.js';

export interface BrokerAddress {
  readonly host: string;
  readonly port: number;
}

/** A broker tells its clients where it is. On this way they are told another address. */
export function readdressed(own: BrokerAddress, shown: BrokerAddress): Interceptor {
  const [from, to] = [encoded(own), encoded(shown)];
  const change = (frame: Buffer): Buffer => {
    const at = frame.indexOf(from);
    if (at === -1) return frame;
    const changed = Buffer.concat([frame.subarray(0, at), to, frame.subarray(at + from.length)]);
    changed.writeInt32BE(changed.length - 4, 0);
    return changed;
  };
  const sizeOf = (bytes: Buffer) => (bytes.length < 4 ? undefined : 4 + bytes.readInt32BE(0));
  return { up: (bytes) => bytes, down: eachFrame(sizeOf, change) };
}

function encoded({ host, port }: BrokerAddress): Buffer {
  const bytes = Buffer.alloc(6 + host.length);
  bytes.writeInt16BE(host.length, 0);
  bytes.write(host, 2, 'latin1');
  bytes.writeInt32BE(port, 2 + host.length);
  return bytes;
}
