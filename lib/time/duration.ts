import type { Duration } from '../outbox-message.js';

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Milliseconds of a {@link Duration}; `undefined` when it is none (wrong type or unit, negative, fractional ms, NaN, infinite). */
export function milliseconds(duration: unknown): number | undefined {
  const ms = typeof duration === 'string' ? parse(duration) : duration;
  return Number.isSafeInteger(ms) && (ms as number) >= 0 ? (ms as number) : undefined;
}

function parse(text: string): number | undefined {
  const match = /^(\d{1,15}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text);
  if (match === null) return undefined;
  return Math.round(Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] * 1e3) / 1e3;
}

/** The shortest exact text for people: 90000 → `90s`, 86400000 → `1d`. */
export function durationText(ms: number): Duration {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms > 0 && ms % UNITS[unit] === 0) return `${ms / UNITS[unit]}${unit}`;
  }
  return `${ms}ms`;
}
