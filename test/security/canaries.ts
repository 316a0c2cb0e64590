import type { TcpProxy } from '../support/tcp-proxy.js';

/** Secrets, each in a place of its own: what shows up says where it came from. */
export const CANARY = {
  payload: 'canary-payload-7qd3',
  nested: 'canary-nested-8zk1',
  number: 4929123412341234,
  text: 'canary-text-payload-1mw7',
  bytes: 'canary-bytes-payload-5rt2',
  header: 'canary-header-2hs9',
  headerBytes: 'canary-header-bytes-4jd8',
  option: 'canary-option-6nb5',
  databasePassword: 'canary-database-password-3xv0',
  amqpPassword: 'canary-amqp-password-9pl4',
  saslPassword: 'canary-sasl-password-0ug6',
  clientPassword: 'canary-client-password-6yf1',
  large: 'canary-large-payload-3cw8',
  encryptionKey: 'canary-encryption-key-bytes-2zq5',
} as const;

/** Of a message as it is stored. */
export const SECRETS = {
  headers: JSON.stringify({ h: CANARY.header }),
  payload: Buffer.from(JSON.stringify({ card: CANARY.payload })),
};

/** The same way, through a proxy. */
export function through(target: string, proxy: TcpProxy): string {
  const url = new URL(target);
  url.host = `${proxy.host}:${proxy.port}`;
  return url.href;
}

/** Which of them are in a text: as they are, or as hexadecimal digits, base64 or part of a URL. */
export function canariesIn(text: string): string[] {
  const lower = text.toLowerCase();
  return Object.entries(CANARY).flatMap(([name, value]) => {
    const plain = String(value);
    const hex = Buffer.from(plain).toString('hex');
    // Of the three ways in which it can lie across base64's groups of three bytes, the middles.
    const base64 = [0, 1, 2].map((shift) =>
      Buffer.from('x'.repeat(shift) + plain)
        .toString('base64')
        .slice(4, -4),
    );
    const found = lower.includes(plain) || lower.includes(hex) || base64.some((form) => text.includes(form));
    return found ? [name] : [];
  });
}
