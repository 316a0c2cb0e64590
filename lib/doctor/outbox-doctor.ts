import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { OutboxHealth } from '../observe/health.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { stopwatch, systemClock, type Clock } from '../time/clock.js';
import type { ExpectedMessages, OutboxTransport } from '../transports/transport.js';
import { askBrokers } from './brokers.js';
import { DatabaseExam } from './database-exam.js';
import { Interview } from './interview.js';
import { doctorSettings, type DoctorOptions } from './options.js';
import { judgeOutage, outageBudget, type OutageBudget } from './outage.js';
import { judgeHealth } from './reasons.js';
import { reportOf, type DoctorReport } from './report.js';

/** The store with connections of its own, so that a question that hangs holds up nobody. */
export interface OpenedStore {
  readonly store: OutboxStore;
  close(): Promise<void>;
}
export interface DoctorSources {
  readonly options: ResolvedOptions;
  readonly clock: Pick<Clock, 'wall'>;
  openStore(): OpenedStore;
  /** A transport that nobody publishes through. */
  openTransport(name: string): Promise<OutboxTransport>;
  expected(transport: string): readonly ExpectedMessages[];
  health(): Promise<OutboxHealth>;
}

/**
 * Checks the tables, server, relays and brokers of an outbox. It writes nothing and uses no connection of the relay: it opens up
 * to four of its own during a diagnosis.
 */
export class OutboxDoctor {
  constructor(/** @internal */ readonly sources: DoctorSources) {}

  /**
   * Runs every check once. A check that cannot run is a finding with the reason, never an error.
   * @throws OutboxConfigurationError `INVALID_OPTIONS`; `UNSUPPORTED_DATABASE`: the store is one of yours, and has no `diagnose`; `NOT_STARTED`: the
   * application is closed
   */
  async diagnose(options: DoctorOptions = {}): Promise<DoctorReport> {
    const settings = doctorSettings(options);
    const [at, took] = [new Date(this.sources.clock.wall()), stopwatch(systemClock)];
    const interview = new Interview(systemClock, settings.timeout);
    const opened = this.sources.openStore();
    let outage: OutageBudget | null = null;
    try {
      const { store } = opened;
      if (store.diagnose === undefined) throw noDiagnose();
      const exam = new DatabaseExam(interview, { ...this.sources, store, questions: store.diagnose, settings });
      if (await exam.reaches()) {
        const facts = await exam.all();
        const health = await interview.ask('The health of this process', () => this.sources.health());
        interview.note(health === undefined ? [] : judgeHealth(health));
        if (facts !== undefined) {
          outage = outageBudget(facts);
          interview.note([judgeOutage(outage, settings.outage)]);
        }
      }
      const lasts = outage?.lasts ?? null;
      if (settings.brokers)
        await askBrokers(interview, this.sources, exam.backlog, lasts === null ? null : lasts * 1_000);
    } finally {
      await opened.close();
    }
    return reportOf(interview.findings, { at, took: Math.round(took()), outage });
  }
}

function noDiagnose(): OutboxConfigurationError {
  return new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'OutboxDoctor: this store has no diagnose.', {
    hint: 'Use the stores of the package, or give yours a DiagnoseStore.',
  });
}
