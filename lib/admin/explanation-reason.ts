import { printable } from '../observe/redact/printable.js';
import type { NamedPause } from '../store/pauses/pause-store.js';
import type { SeenRelay } from '../observe/seen-relays.js';

/** Why a message is not sent. */
export type ExplanationCode =
  | 'published'
  | 'not-found'
  | 'not-searched'
  | 'dead'
  | 'scheduled'
  | 'waiting'
  | 'blocked'
  | 'sending'
  | 'paused'
  | 'no-relay'
  | 'no-owner'
  | 'owner-gone'
  | 'circuit-open'
  | 'ready';
export interface ExplanationReason {
  readonly code: ExplanationCode;
  /** `null`: nothing is there in any transport. */
  readonly transport: string | null;
  /** One sentence. */
  readonly text: string;
  /** What the database says, by name. */
  readonly facts: Readonly<Record<string, string | number | boolean | Date | null>>;
}
export interface Explanation {
  readonly id: string;
  /** The first reason of each transport. */
  readonly text: string;
  /** By transport, the one that holds first. */
  readonly reasons: readonly ExplanationReason[];
}

export interface ExplainSources {
  readonly names: ReadonlyMap<number, string>;
  readonly relays: readonly SeenRelay[];
  readonly pauses: readonly NamedPause[];
  readonly usesLeases: boolean;
}

/** Says a reason of one transport. */
export type Say = (code: ExplanationCode, text: string, facts: ExplanationReason['facts']) => ExplanationReason;
export const sayOf =
  (transport: string | null): Say =>
  (code, text, facts) => ({ code, transport, text, facts });

export const at = (time: Date | null): string => time?.toISOString() ?? 'an unknown time';
export const shown = (error: string | null): string | null => (error === null ? null : printable(error));
/** At the end of a sentence, before its full stop. */
export const because = (error: string | null): string =>
  error === null ? '' : `: ${printable(error).replace(/\.$/, '')}`;
