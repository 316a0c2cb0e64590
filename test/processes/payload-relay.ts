import type { ChildProcess } from 'node:child_process';
import { startFile } from '../support/own-process.js';
import { NO_WRITERS, type FleetSettings } from './fleet.js';
import type { PayloadReport } from './payload-process.js';

/** A relay in a process of its own, that tells what it publishes. */
export class PayloadRelay {
  readonly reports: PayloadReport[] = [];
  /** Why it ended by itself. */
  failure: string | undefined;
  readonly process: ChildProcess;

  /** @param heap megabytes of JavaScript objects that the process may have */
  constructor(url: string, relayOptions: NonNullable<FleetSettings['relayOptions']>, heap: number) {
    // Hundreds of megabytes through a slow disk are no outage: nothing is published twice for that.
    const lease = 600_000;
    const patient = { lease, publishTimeout: 300_000, ...relayOptions };
    const settings: FleetSettings = { ...NO_WRITERS, url, ledger: '', lease, relayOptions: patient };
    const options = [`--max-old-space-size=${heap}`];
    this.process = startFile('test/processes/payload-process.ts', { FLEET: JSON.stringify(settings) }, { options });
    this.process.on('message', (report: PayloadReport) => this.reports.push(report));
    this.process.once('exit', (code, signal) => (this.failure = `The process ended: ${code ?? signal}`));
  }
}
