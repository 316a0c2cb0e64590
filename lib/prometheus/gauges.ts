import type { OutboxHealth } from '../observe/health.js';
import { REASON_CODES } from '../observe/reason-codes.js';
import type { OutboxStats, OutboxTransportStats } from '../observe/stats.js';
import { COUNT_GAUGES, HEALTH_GAUGES, TABLE_GAUGES, type Metric } from './catalogue.js';
import { labelsOf, type Sample } from './samples.js';

/** What the database says of a table. */
export interface TableSize {
  readonly table: string;
  readonly bytes: number;
  readonly liveRows: number;
  readonly deadRows: number | null;
}
/** Of the oldest one of the database; `null`: nobody knows. */
export interface SnapshotAge {
  /** Milliseconds. */
  readonly age: number | null;
  readonly transactions: number | null;
}
/** The lines of a scrape, by the metric's name. */
export type Lines = Map<string, Sample[]>;

const STATUSES = ['up', 'degraded', 'down'] as const;
const CIRCUITS = ['closed', 'open', 'probing', 'blocked', 'idle'] as const;
const STATES = ['ready', 'scheduled', 'waiting', 'blocked', 'dead'] as const;
const IS = { true: 1, false: 0 } as const;
const is = (what: boolean): number => IS[`${what}`];

/** Seconds: 0 says that nobody paused it, and the clock of the database may be ahead of ours. */
const MIN_PAUSED = 0.001;

type SetLine = (metric: Metric, value: number, ...labels: readonly string[]) => void;
const setter =
  (lines: Lines, outbox: string): SetLine =>
  (metric, value, ...values) => {
    const found = lines.get(metric.name) ?? [];
    lines.set(metric.name, [...found, { labels: labelsOf(metric, outbox, values), value }]);
  };

/** @param now milliseconds since the epoch */
export function healthLines(lines: Lines, outbox: string, health: OutboxHealth, now: number): void {
  const { status, reasons, relay, transports } = health;
  const set = setter(lines, outbox);
  for (const one of STATUSES) set(HEALTH_GAUGES.status, is(one === status), one);
  for (const code of REASON_CODES) set(HEALTH_GAUGES.reasons, reasons.filter((one) => one.code === code).length, code);
  set(HEALTH_GAUGES.running, is(relay.running));
  set(HEALTH_GAUGES.databaseFailing, (relay.storeDownFor ?? 0) / 1_000);
  set(HEALTH_GAUGES.heartbeatLate, relay.heartbeatLate / 1_000);
  set(HEALTH_GAUGES.snapshotHeld, is(relay.heldSnapshot !== null));
  for (const [transport, { paused }] of Object.entries(transports)) {
    const since = paused?.since.getTime() ?? now;
    set(HEALTH_GAUGES.paused, paused === null ? 0 : Math.max(MIN_PAUSED, (now - since) / 1_000), transport);
  }
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

export function tableLines(lines: Lines, outbox: string, tables: readonly TableSize[]): void {
  const set = setter(lines, outbox);
  for (const { table, bytes, liveRows, deadRows } of tables) {
    set(TABLE_GAUGES.bytes, bytes, table);
    set(TABLE_GAUGES.rows, Math.max(0, liveRows), table); // -1: never counted
    if (deadRows !== null) set(TABLE_GAUGES.deadRows, deadRows, table);
  }
}

export function schemaLines(lines: Lines, outbox: string, differs: boolean): void {
  setter(lines, outbox)(TABLE_GAUGES.schemaDiffers, is(differs));
}

export function snapshotLines(lines: Lines, outbox: string, { age, transactions }: SnapshotAge): void {
  const set = setter(lines, outbox);
  if (age !== null) set(TABLE_GAUGES.snapshotAge, age / 1_000);
  if (transactions !== null) set(TABLE_GAUGES.snapshotTransactions, transactions);
}

const isCut = ({ readyIsExact, atLeast = [] }: OutboxTransportStats): boolean => !readyIsExact || atLeast.length > 0;
