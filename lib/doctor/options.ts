import type { Duration } from '../outbox-message.js';
import { resolveFactory, row, type FactoryTable } from '../options/factory-options.js';
import { duration, integer, trueOrFalse } from '../options/rules.js';

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

export interface DoctorSettings extends Readonly<Record<'outage' | 'measureFor' | 'heldFor' | 'timeout', number>> {
  readonly freeBytes?: number;
  readonly tableBytes?: number;
  readonly brokers: boolean;
}

const bytes = row(integer(0, Number.MAX_SAFE_INTEGER));
const TABLE: FactoryTable<DoctorOptions> = {
  factory: 'OutboxDoctor.diagnose',
  rows: {
    outage: row(duration('1s', '3650d'), 3_600_000),
    freeBytes: bytes,
    tableBytes: bytes,
    measureFor: row(duration('10ms', '1m'), 2_000),
    heldFor: row(duration('10ms', '30d'), 60_000),
    brokers: row(trueOrFalse, true),
    timeout: row(duration('1s', '5m'), 30_000),
  },
};

/** @throws OutboxConfigurationError `INVALID_OPTIONS`: an option is unknown, or none */
export const doctorSettings = (options: DoctorOptions): DoctorSettings =>
  resolveFactory(TABLE, options) as DoctorSettings;
