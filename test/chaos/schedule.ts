import { setTimeout as pause } from 'node:timers/promises';
import type { Fault } from './fault.js';
import { brokerOutage, makeFault } from './faults.js';
import type { Fleet } from './fleet.js';
import { RELAY } from './settings.js';
import { randomFrom } from './workload.js';

const SECOND = 1_000;
/** Before the first fault; nothing may be repeated in it. */
const QUIET_START = 5 * SECOND;
/** After the last fault has healed everything is as usual again, at the latest, so much later. */
export const RECOVERY = RELAY.lease + 5 * SECOND;
const CALM = 10 * SECOND;
/** Between the beginnings of two calms. */
const CYCLE = 180 * SECOND;
/** Overlapping faults at the same time, at most. With more of them no relay is ever well for as long as a takeover takes. */
const LANES = 2;
/** Runs of ten minutes and more have one outage of the broker that lasts: a sixth of the run, ten minutes at most. */
const outageOf = (length: number): number => Math.min(length / 6, 600 * SECOND);

/**
 * Seeded: which faults, where and how long. One at a time in the first third, overlapping after it, with a calm every few
 * minutes. What a fault meets depends on the machine, so a seed gives the same plan and not the same history.
 */
export class Schedule {
  /** How often each kind was injected. */
  readonly counts = new Map<string, number>();
  private readonly locks = new Set<string>();
  private readonly begun = performance.now();
  private readonly settling = new Set<Promise<void>>();
  private faults = 0;
  private stopped = false;

  constructor(
    private readonly fleet: Fleet,
    private readonly seed: number,
    private readonly length: number,
    private readonly only: readonly string[] | undefined,
  ) {}

  private get elapsed(): number {
    return performance.now() - this.begun;
  }

  async run(): Promise<void> {
    await this.calm(0, QUIET_START);
    const withCalm = this.length > CYCLE * 1.5;
    let outage = this.length >= 600 * SECOND;
    for (let cycle = 1; this.elapsed < this.length && !this.stopped; cycle += 1) {
      const until = withCalm ? Math.min(cycle * CYCLE, this.length) : this.length;
      await this.relays(cycle, until);
      if (outage && this.elapsed > this.length / 2) {
        outage = false;
        await this.inject(brokerOutage(this.fleet, outageOf(this.length)));
      }
      if (!withCalm || this.stopped) continue;
      await this.calm(RECOVERY, CALM);
      await this.takeover(cycle);
      await this.absence(cycle);
    }
  }

  /** Everything heals; nothing new begins. */
  stop(): void {
    this.stopped = true;
  }

  private async relays(cycle: number, until: number): Promise<void> {
    const third = this.length / 3;
    await this.relay(cycle * 100, Math.min(until, third));
    const relays = Array.from({ length: LANES }, (_, i) => this.relay(cycle * 100 + 1 + i, until));
    await Promise.all(relays);
    await Promise.all(this.settling);
  }

  /** One fault after the other. */
  private async relay(number: number, until: number): Promise<void> {
    const random = randomFrom(this.seed * 104_729 + number);
    while (this.elapsed < until && !this.stopped) {
      if (this.only?.length === 0) {
        await pause(100);
        continue;
      }
      const fault = makeFault(this.fleet, random, this.only);
      if (fault.locks.some((lock) => this.locks.has(lock))) {
        await pause(50);
        continue;
      }
      await this.inject(fault);
      await pause(200 + random() * 800);
    }
  }

  private async inject(fault: Fault): Promise<void> {
    const { history } = this.fleet;
    const id = (this.faults += 1);
    for (const lock of fault.locks) this.locks.add(lock);
    this.counts.set(fault.kind, (this.counts.get(fault.kind) ?? 0) + 1);
    history.add(['fault', id, fault.kind, fault.runs, history.now()]);
    try {
      await retried(() => fault.inject());
      // The last ones end with the run.
      await this.pause(Math.min(fault.lasts, Math.max(SECOND, this.length - this.elapsed)));
    } finally {
      await retried(() => fault.heal());
      history.add(['heal', id, history.now()]);
      const settling = (fault.settled?.() ?? Promise.resolve()).finally(() => {
        for (const lock of fault.locks) this.locks.delete(lock);
        this.settling.delete(settling);
      });
      this.settling.add(settling);
    }
  }

  /** One relay dies while nothing else is wrong: this is what a takeover takes. */
  private async takeover(cycle: number): Promise<void> {
    await this.inject(makeFault(this.fleet, randomFrom(this.seed + cycle), ['relay-kill']));
    await this.pause(RELAY.lease + 3 * SECOND);
    await Promise.all(this.settling);
  }

  /** One topic is missing while nothing else is wrong: what that does to the others. */
  private async absence(cycle: number): Promise<void> {
    if (this.stopped || this.only?.includes('topic-missing') === false) return;
    await this.inject(makeFault(this.fleet, randomFrom(this.seed + cycle), ['topic-missing']));
  }

  private async pause(ms: number): Promise<void> {
    for (const end = performance.now() + ms; performance.now() < end && !this.stopped;) {
      await pause(Math.min(100, Math.max(1, end - performance.now())));
    }
  }

  private async calm(after: number, lasts: number): Promise<void> {
    const { history } = this.fleet;
    await this.pause(after);
    const from = history.now();
    await this.pause(lasts);
    history.add(['calm', from, history.now()]);
  }
}

/** What the harness does to a server may meet another fault of the same server. */
async function retried(work: () => Promise<void> | void): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries >= 20) throw error;
      await pause(500);
    }
  }
}
