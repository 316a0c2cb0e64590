import { isWhole, type NamedPause } from '../store/pauses/pause-store.js';
import { reason, type OutboxReason } from './reason-codes.js';
import { printable } from './redact/printable.js';

type Told = { readonly pauses?: readonly NamedPause[] } | { readonly error: unknown } | { readonly late: number };

export const pausesOf = (counts: Told): readonly NamedPause[] => ('pauses' in counts ? (counts.pauses ?? []) : []);

/** Of the whole transport. */
export function pauseOf(transport: string, counts: Told): { since: Date; by: string; reason: string } | null {
  const found = pausesOf(counts).find((pause) => pause.name === transport && isWhole(pause));
  if (found === undefined) return null;
  return { since: found.since, by: printable(found.actor), reason: printable(found.reason) };
}

/** Some of its topics or keys are paused. */
export const hasPausedParts = (transport: string, counts: Told): boolean =>
  pausesOf(counts).some((pause) => pause.name === transport && !isWhole(pause));

/** Pauses by name: an answer of health is short. */
const MOST = 5;

/** One sentence each. Nothing is broken, but somebody has to end it: whoever is on call reads who, since when and why. */
export function pauseReasons(pauses: readonly NamedPause[]): OutboxReason[] {
  const more = pauses.length - MOST;
  return [
    ...pauses
      .slice(0, MOST)
      .map((pause) => reason('paused', pauseText(pause), { transport: pause.name, since: pause.since })),
    ...(more > 0 ? [reason('paused', `${more} more ${more === 1 ? 'pause' : 'pauses'}.`)] : []),
  ];
}

export function pauseText({ since, actor, reason: why, ...of }: Omit<NamedPause, 'transport'>): string {
  const because = printable(why).replace(/\.$/, '');
  return `${capital(pausedPart(of))} is paused since ${since.toISOString()} by ${printable(actor)}: ${because}.`;
}

export const capital = (part: string): string => part.replace(/^./, (letter) => letter.toUpperCase());

/** What a pause is of, as a part of a sentence. */
export function pausedPart({ name, topic, key }: Pick<NamedPause, 'name' | 'topic' | 'key'>): string {
  const parts = [
    ...(key === null ? [] : [`key '${printable(key)}'`]),
    ...(topic === null ? [] : [`topic '${printable(topic)}'`]),
    `transport '${name}'`,
  ];
  return parts.join(' of ');
}
