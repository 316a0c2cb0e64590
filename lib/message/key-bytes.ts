import { isUtf8 } from 'node:buffer';

/**
 * MariaDB and MySQL keep keys as bytes, and other programs may write such as are no UTF-8. They are read as hexadecimal
 * digits behind half a surrogate pair, which no text that can be enqueued holds: different keys stay different, and each
 * is found again.
 */
export function keyText(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  // Nearly every key is settled by the first look.
  return text.includes('\ufffd') && !isUtf8(bytes) ? NO_TEXT + bytes.toString('hex') : text;
}

export function keyBytes(key: string): Buffer {
  return key.startsWith(NO_TEXT) ? Buffer.from(key.slice(1), 'hex') : Buffer.from(key, 'utf8');
}

/** For brokers whose keys are bytes, and for whatever hashes keys. */
export function recordKey<K extends string | null>(key: K): K | Buffer {
  return key?.startsWith(NO_TEXT) === true ? keyBytes(key) : key;
}

const NO_TEXT = '\udc80';
