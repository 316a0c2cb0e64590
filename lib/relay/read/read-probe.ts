import type { Reader, ReadResult } from './reader.js';
import { firstOfEach, type GateOf } from '../order/key-queues.js';

export interface Probe {
  readonly bucket: number | undefined;
  /** 0 ≤ x < 1: which of a few messages. */
  readonly random: number;
}

/**
 * The first message of one of the first keys of a bucket; the others are read again. Were it always the oldest of all, one
 * that kills its connection, or is never confirmed, would be every probe, and let nobody through.
 */
export async function readProbe(reader: Reader, { bucket, random }: Probe, gateOf: GateOf): Promise<ReadResult> {
  const result = await reader.read(PROBE_CHOICE, bucket);
  const firsts = firstOfEach(result.messages, gateOf);
  const probe = firsts[Math.floor(random * firsts.length)];
  if (probe === undefined || result.messages.length === 1) return result;
  reader.rewind(result.messages.filter((message) => message !== probe));
  return { ...result, messages: [probe] };
}

/** Rows that a probe chooses from. */
const PROBE_CHOICE = 10;
