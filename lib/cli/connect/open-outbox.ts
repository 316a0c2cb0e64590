import type {
  OutboxAdmin,
  OutboxCleaner,
  OutboxDoctor,
  OutboxPart,
  OutboxPartitionMaintainer,
  OutboxService,
} from '../../index.js';
import { systemClock, within } from '../../time/clock.js';
import { durationText } from '../../time/duration.js';
import { CliError, EXIT, refuseUsage } from '../exit-code.js';
import { openModule } from './open-module.js';
import { openTables } from './open-tables.js';
import type { Settings } from './settings.js';

/** An outbox of which no relay runs here. */
export interface OpenOutbox {
  readonly admin: OutboxAdmin;
  readonly service: OutboxService;
  readonly cleaner: OutboxCleaner;
  readonly doctor: OutboxDoctor;
  readonly partitions: OutboxPartitionMaintainer;
  /** Whether its options are the application's, and not the defaults. */
  readonly isConfigured: boolean;
  /** Waits for an answer of the database, for `timeout` at most. @throws CliError exit code 1 */
  answer<T>(work: Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface Opening {
  /** Default true. Of tables that are not as they should be an outbox opens only without it. */
  readonly checked?: boolean;
}

export const NOT_OPEN = 'It did not open within';
export const NO_ANSWER = 'The database did not answer within';
/** Milliseconds: a database that fell silent does not keep the command from ending. */
const CLOSE_TIMEOUT = 2_000;

export async function openOutbox(
  { source, name, timeout }: Settings,
  { checked = true }: Opening = {},
): Promise<OpenOutbox> {
  const opening =
    source.kind === 'module' ? openModule(source, false, checked) : openTables(source, { name, timeout }, checked);
  const opened = await inTime(opening, timeout, NOT_OPEN);
  const { OutboxAdmin, OutboxService, OutboxCleaner, OutboxDoctor, OutboxPartitionMaintainer, getOutboxToken } =
    opened.outbox;
  const part = <T>(type: OutboxPart): T => {
    const found = opened.get(getOutboxToken(name, type)) as T | undefined;
    return found ?? refuseMissing(`outbox '${name}'`);
  };
  return {
    admin: part(OutboxAdmin),
    service: part(OutboxService),
    cleaner: part(OutboxCleaner),
    doctor: part(OutboxDoctor),
    partitions: part(OutboxPartitionMaintainer),
    isConfigured: source.kind === 'module',
    answer: (work) => inTime(work, timeout, NO_ANSWER),
    close: () =>
      within(
        systemClock,
        CLOSE_TIMEOUT,
        opened.close().catch(() => {}),
      ).then(() => {}),
  };
}

export const refuseMissing = (what: string): never =>
  refuseUsage(`The application has no ${what}. The module must be the one that main.ts gives to NestFactory.`);

/** Nothing came in time. */
export class TooLate extends CliError {}

/** @throws TooLate exit code 1 */
export async function inTime<T>(work: Promise<T>, timeout: number, problem: string): Promise<T> {
  if (await within(systemClock, timeout, work)) return work;
  work.catch(() => {});
  throw new TooLate(EXIT.failed, `${problem} ${durationText(timeout)}. Look at the database, or give more --timeout.`);
}
