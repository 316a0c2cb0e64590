import type { Duration } from '../outbox-message.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { duration, integer, INVALID, trueOrFalse, type Rule } from '../options/rules.js';
import { typeName } from '../options/text-checks.js';

/** What `diagnose()` goes by. */
export interface DoctorOptions {
  /** For how long the broker may be down at least: less is a warning. Default `1h`, up to 3650d. */
  outage?: Duration;
  /** Bytes that are free for the tables, where the database does not tell. */
  freeBytes?: number;
  /** Bytes that the tables may take together. Default: no limit but the disk. */
  tableBytes?: number;
  /** For how long new messages are counted, where no message tells how fast they come. Default `2s`, up to 1m. */
  measureFor?: Duration;
  /** How old a transaction may be that keeps dead rows. Default `1m`. */
  heldFor?: Duration;
  /** Whether brokers are asked. Default true. */
  brokers?: boolean;
  /** Milliseconds for everything, as a duration. What is not answered by then is a finding. Default `30s`, up to 5m. */
  timeout?: Duration;
}

export interface DoctorSettings {
  readonly outage: number;
  readonly freeBytes: number | undefined;
  readonly tableBytes: number | undefined;
  readonly measureFor: number;
  readonly heldFor: number;
  readonly brokers: boolean;
  readonly timeout: number;
}

const bytes = integer(0, Number.MAX_SAFE_INTEGER);
const TABLE: Readonly<Record<keyof DoctorOptions, readonly [otherwise: unknown, rule: Rule]>> = {
  outage: ['1h', duration('1s', '3650d')],
  freeBytes: [undefined, bytes],
  tableBytes: [undefined, bytes],
  measureFor: ['2s', duration('10ms', '1m')],
  heldFor: ['1m', duration('10ms', '30d')],
  brokers: [true, trueOrFalse],
  timeout: ['30s', duration('1s', '5m')],
};

/** @throws OutboxMessageError `INVALID_MESSAGE`: an option is unknown, or none */
export function doctorSettings(options: DoctorOptions): DoctorSettings {
  if (typeof options !== 'object' || options === null)
    refuse('diagnose', `options must be an object, not ${typeName(options)}`);
  refuseUnknown(options, Object.keys(TABLE), 'diagnose');
  const settings = Object.entries(TABLE).map(([name, [otherwise, rule]]) => {
    const given: unknown = options[name as keyof DoctorOptions] ?? otherwise;
    const value = given === undefined ? undefined : rule.parse(given);
    if (value === INVALID) refuse('diagnose', `${name} must be ${rule.allowed}`);
    return [name, value];
  });
  return Object.fromEntries(settings) as DoctorSettings;
}
