import { types } from 'node:util';
import {
  encryptionContext,
  isRequired,
  KEY_ID_HEADER,
  type EncryptedPayload,
  type PayloadEncryption,
} from '../message/encryption.js';
import { ENCRYPTION_OPTION, type NewMessage } from '../outbox-message.js';
import type { Destinations } from './destinations.js';
import { refuse, threw } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';

const KEY_ID = /^[\x21-\x7e]{1,255}$/;

/**
 * The rows as they are stored: payloads encrypted, each for its own transport, the key's id in the options. Order is kept;
 * nothing was written when it throws.
 */
export async function encryptPayloads(
  rows: readonly NewMessage[],
  encryption: PayloadEncryption,
  destinations: Destinations,
): Promise<NewMessage[]> {
  const names = new Map([...destinations.byName.values()].map(({ id, name }) => [id, name]));
  return Promise.all(
    rows.map(async (row) => {
      const transport = names.get(row.transport) as string;
      const sealed = row.payload === null ? null : await seal(row, row.payload, transport, encryption);
      if (sealed === null) return row;
      refuseKeyIdHeader(row);
      if (encryption.deliver === 'encrypted') checkSize(row, sealed.ciphertext, destinations);
      return { ...row, payload: sealed.ciphertext, options: withKeyId(row.options, sealed.keyId) };
    }),
  );
}

async function seal(
  row: NewMessage,
  payload: Uint8Array,
  transport: string,
  encryption: PayloadEncryption,
): Promise<EncryptedPayload | null> {
  const context = encryptionContext({ ...row, transport });
  let sealed: EncryptedPayload | null;
  try {
    sealed = await encryption.encrypt(payload, context);
    if (sealed === null && !isRequired(encryption, () => context)) return null;
  } catch (error) {
    throw threw('ENCRYPTION_FAILED', `${subjectOf(row)}: its encryption threw.`, error, payload);
  }
  if (sealed === null)
    refuse(subjectOf(row), 'encryption.encrypt() gave null, which encryption.required forbids', 'ENCRYPTION_FAILED');
  if (typeof sealed !== 'object' || !types.isUint8Array(sealed.ciphertext))
    refuse(subjectOf(row), `encryption.encrypt() gave ${typeName(sealed)} without a ciphertext`, 'ENCRYPTION_FAILED');
  if (typeof sealed.keyId !== 'string' || !KEY_ID.test(sealed.keyId))
    refuse(
      subjectOf(row),
      'encryption.encrypt() gave no keyId of 1 to 255 visible ASCII characters',
      'ENCRYPTION_FAILED',
    );
  return sealed;
}

/** Whatever this process delivers: a relay that sends payloads as they are stored would overwrite it. */
function refuseKeyIdHeader(row: NewMessage): void {
  if (row.headers?.includes(KEY_ID_HEADER) !== true) return;
  if (!Object.hasOwn(JSON.parse(row.headers) as object, KEY_ID_HEADER)) return;
  refuse(subjectOf(row), `the header name ${KEY_ID_HEADER} is reserved, as its payload is encrypted`);
}

/** A broker that gets the ciphertext must be able to take it. */
function checkSize(row: NewMessage, { byteLength }: Uint8Array, { byName }: Destinations): void {
  for (const { id, name, limits } of byName.values()) {
    if (id !== row.transport || limits?.payloadBytes === undefined || byteLength <= limits.payloadBytes) continue;
    const problem = `encrypted, its payload has ${byteLength} bytes, more than the ${limits.payloadBytes} of transport '${name}'`;
    refuse(subjectOf(row), problem, 'PAYLOAD_TOO_LARGE');
  }
}

function withKeyId(options: string | null, keyId: string): string {
  const stored = options === null ? {} : (JSON.parse(options) as object);
  return JSON.stringify({ ...stored, [ENCRYPTION_OPTION]: { keyId } });
}

const subjectOf = ({ type }: NewMessage): string => `Message '${type}'`;
