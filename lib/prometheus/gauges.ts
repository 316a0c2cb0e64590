import type { OutboxHealth } from '../observe/health.js';
import { REASON_CODES, reasonCode } from '../observe/reason-codes.js';
import type { OutboxStats, OutboxTransportStats } from '../observe/stats.js';
import { COUNT_GAUGES, HEALTH_GAUGES, type Metric } from './catalogue.js';
import { labelsOf, type Sample } from './samples.js';

/** The lines of a scrape, by the metric's name. */
export type Lines = Map<string, Sample[]>;

const STATUSES = ['up', 'degraded', 'down'] as const;
const CIRCUITS = ['closed', 'open', 'probing', 'blocked', 'idle'] as const;
const STATES = ['ready', 'scheduled', 'waiting', 'blocked', 'dead'] as const;
const CODES = [...REASON_CODES.map(([code]) => code), 'other'] as const;
const IS = { true: 1, false: 0 } as const;
const is = (what: boolean): number => IS[`${what}`];

type SetLine = (metric: Metric, value: number, ...labels: readonly string[]) => void;
const setter =
  (lines: Lines, outbox: string): SetLine =>
  (metric, value, ...values) => {
    const found = lines.get(metric.name) ?? [];
    lines.set(metric.name, [...found, { labels: labelsOf(metric, outbox, values), value }]);
  };

export function healthLines(lines: Lines, outbox: string, { status, reasons, relay, transports }: OutboxHealth): void {
  const set = setter(lines, outbox);
  const codes = reasons.map(reasonCode);
  for (const one of STATUSES) set(HEALTH_GAUGES.status, is(one === status), one);
  for (const code of CODES) set(HEALTH_GAUGES.reasons, codes.filter((one) => one === code).length, code);
  set(HEALTH_GAUGES.running, is(relay.running));
  set(HEALTH_GAUGES.databaseFailing, (relay.storeDownFor ?? 0) / 1_000);
  set(HEALTH_GAUGES.heartbeatLate, relay.heartbeatLate / 1_000);
  set(HEALTH_GAUGES.snapshotHeld, is(relay.heldSnapshot !== null));
  for (const [transport, { circuit }] of Object.entries(transports))
    for (const state of CIRCUITS) set(HEALTH_GAUGES.circuit, is(state === circuit), transport, state);
}

export function countLines(lines: Lines, outbox: string, { transports, away }: OutboxStats): void {
  const set = setter(lines, outbox);
  for (const [transport, counts] of Object.entries(transports)) {
    for (const state of STATES) set(COUNT_GAUGES.messages, counts[state], transport, state);
    set(COUNT_GAUGES.blockedKeys, counts.blockedKeys, transport);
    set(COUNT_GAUGES.oldestReadyAge, (counts.oldestReadyAge ?? 0) / 1_000, transport);
    set(COUNT_GAUGES.failingOften, counts.failingOften ?? 0, transport);
    set(COUNT_GAUGES.mostAttempts, counts.mostAttempts ?? 0, transport);
    set(COUNT_GAUGES.leasedBuckets, counts.leasedBuckets, transport);
    set(COUNT_GAUGES.missingLeases, counts.missingLeases ?? 0, transport);
    set(COUNT_GAUGES.instances, counts.instances, transport);
    set(COUNT_GAUGES.destinationsAway, away.filter((one) => one.transport === transport).length, transport);
    set(COUNT_GAUGES.countsCut, is(isCut(counts)), transport);
  }
}

const isCut = ({ readyIsExact, atLeast = [] }: OutboxTransportStats): boolean => !readyIsExact || atLeast.length > 0;
