/** `12,000`. */
export const number = (value: number): string => value.toLocaleString('en-US');

/** `1 message`, `12,000 messages`. */
export const messages = (count: number): string => `${number(count)} ${count === 1 ? 'message' : 'messages'}`;

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** For a table: the innermost word of the outbox itself, or what a handler threw, without classes. */
export function causeOf(error: string): string {
  const parts = error.split(' ← ');
  const own = parts.findLast((part) => OWN.test(part) && !part.includes('(HANDLER_FAILED)'));
  return (own ?? parts.at(-1) ?? '').replace(/^\w*Error: /, '');
}
const OWN = /^(?:Outbox|RabbitMq|Kafka)\w*Error: /;

/** In its largest unit: `3m`; empty without a time. */
export function span(ms: number | null): string {
  if (ms === null) return '';
  const [unit, size] = UNITS.find(([, least]) => ms >= least) ?? ['s', 1_000];
  return `${Math.max(0, Math.floor(ms / size))}${unit}`;
}

/** How long ago by this machine's clock; a time to come has a `+`. */
export function age(time: Date | null, now = Date.now()): string {
  if (time === null) return '';
  const ms = now - time.getTime();
  return ms < 0 ? `+${span(-ms)}` : span(ms);
}

export const iso = (time: Date | null): string => time?.toISOString() ?? '';
