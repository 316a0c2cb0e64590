import type { FaultLog } from './faults.js';
import { Growth } from './growth.js';
import type { Violations } from './violations.js';

export interface ResourceLimits {
  /** To the database and to the broker, of one relay. */
  readonly maxConnections: number;
  readonly maxBrokerConnections?: number;
}

/** Megabytes a minute. */
const FLAT = 1;
/** Descriptors a minute. Who loses one with each connection that breaks loses three and more. */
const FLAT_DESCRIPTORS = 2;
/** Microseconds between two samples of a relay: each tells the longest delay of its event loop since the one before. */
const WINDOW = 2_000_000;
/** Microseconds without a publish after which V8 may have given memory back. */
const A_PAUSE = 10_000_000;
/**
 * Milliseconds, in calms. 99 of 100 turns are promised to be shorter than the first. A sample is the longest of about a hundred
 * turns, so that its chance to stay below what one turn in a hundred exceeds is 0.99^100. What is longer than the second, no
 * scheduler made: measured in the calms of 34 minutes, with a dozen other programs waiting for the two cores, 77 and 577 ms.
 */
const LOOP_DELAY = 100;
const LOOP_BLOCK = 1_000;
const SHARE_BELOW = 0.99 ** 100;
/** Fewer samples say nothing of all. */
const ENOUGH = 20;

interface Delay {
  readonly run: number;
  readonly time: number;
  readonly ms: number;
}

interface Memory {
  readonly run: number;
  readonly time: number;
  readonly rss: number;
}

/** What the relays take: connections, memory, descriptors, their event loop. */
export class Resources {
  private readonly born = new Map<number, number>();
  private readonly memory: Memory[] = [];
  /** Windows in which each relay published. */
  private readonly busy = new Map<number, Set<number>>();
  private readonly descriptors = new Growth();
  private readonly delays: Delay[] = [];
  /** A calm is known when it is over: what was seen in it is judged at the end. */
  private readonly connections: { side: 'Db' | 'Broker'; time: number; slot: number; count: number }[] = [];
  private readonly most = { maxDbConnections: 0, maxBrokerConnections: 0, maxRssMb: 0, maxDescriptors: 0 };

  ready(run: number, time: number): void {
    this.born.set(run, time);
  }

  sample(run: number, time: number, rss: number, descriptors: number, delay: number): void {
    const age = time - (this.born.get(run) ?? Infinity);
    this.memory.push({ run, time, rss });
    this.descriptors.sample(age, descriptors);
    // The first one saw the start.
    if (age >= 1.5 * WINDOW) this.delays.push({ run, time, ms: delay });
    this.most.maxRssMb = Math.max(this.most.maxRssMb, rss);
    this.most.maxDescriptors = Math.max(this.most.maxDescriptors, descriptors);
  }

  published(run: number, time: number): void {
    let windows = this.busy.get(run);
    if (windows === undefined) this.busy.set(run, (windows = new Set()));
    windows.add(Math.floor(time / WINDOW));
  }

  open(side: 'Db' | 'Broker', time: number, slot: number, count: number): void {
    const name = `max${side}Connections` as const;
    this.most[name] = Math.max(this.most[name], count);
    this.connections.push({ side, time, slot, count });
  }

  /** @returns the figures */
  judge(limits: ResourceLimits, faults: FaultLog, broken: Violations): Record<string, number | undefined> {
    this.judgeConnections(limits, faults, broken);
    const { descriptors } = this;
    const memory = this.memoryByWork();
    if ((memory.slope ?? 0) > FLAT) broken.add('memoryGrowth', `${memory.slope} MB a minute`);
    if ((descriptors.slope ?? 0) > FLAT_DESCRIPTORS)
      broken.add('descriptorGrowth', `${descriptors.slope} descriptors a minute`);
    return {
      ...this.most,
      rssMbPerMinute: memory.slope,
      descriptorsPerMinute: descriptors.slope,
      ...this.judgeLoop(faults, broken),
    };
  }

  /** By how long a relay has worked without a pause. One without work gives memory back, down to 100 MB, and takes it again. */
  private memoryByWork(): Growth {
    const growth = new Growth();
    const worked = new Map<number, readonly [at: number, long: number]>();
    for (const { run, time, rss } of this.memory) {
      const [window, busy] = [Math.floor(time / WINDOW), this.busy.get(run)];
      if (busy?.has(window) !== true && busy?.has(window - 1) !== true) continue;
      const [at, long] = worked.get(run) ?? [-Infinity, 0];
      const work = WINDOW + (time - at < A_PAUSE ? long : 0);
      worked.set(run, [time, work]);
      growth.sample(work, rss);
    }
    return growth;
  }

  private judgeConnections(limits: ResourceLimits, faults: FaultLog, broken: Violations): void {
    const most = { Db: limits.maxConnections, Broker: limits.maxBrokerConnections ?? Infinity };
    const names = { Db: 'connectionLeaks', Broker: 'brokerConnectionLeaks' };
    for (const { side, time, slot, count } of this.connections)
      if (count > most[side] && faults.isCalm(time))
        broken.add(names[side], `relay place ${slot}: ${count} at ${time}`);
  }

  private judgeLoop(faults: FaultLog, broken: Violations): Record<string, number | undefined> {
    const calm = this.delays.filter(({ time }) => faults.isCalm(time) && faults.isCalm(time - WINDOW));
    for (const { run, time, ms } of calm)
      if (ms > LOOP_BLOCK) broken.add('loopBlocks', `relay ${run}: ${ms} ms before ${time}`);
    const sorted = calm.map(({ ms }) => ms).sort((a, b) => a - b);
    const p99 = sorted.length < ENOUGH ? undefined : sorted[Math.floor(SHARE_BELOW * sorted.length)];
    if ((p99 ?? 0) > LOOP_DELAY) broken.add('loopBlocks', `one turn in a hundred takes ${p99} ms and more`);
    return { maxLoopDelayMs: sorted.at(-1), loopDelayP99Ms: p99 };
  }
}
