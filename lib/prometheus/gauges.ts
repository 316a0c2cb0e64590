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

/** The lines of one scrape. */
export class Scrape {
  /** By the metric's name. */
  readonly lines = new Map<string, Sample[]>();

  constructor(private readonly outbox: string) {}

  set(metric: Metric, value: number, ...labels: readonly string[]): void {
    const line = { labels: labelsOf(metric, this.outbox, labels), value };
    const found = this.lines.get(metric.name);
    if (found === undefined) this.lines.set(metric.name, [line]);
    else found.push(line);
  }
}

const STATUSES = ['up', 'degraded', 'down'] as const;
const CIRCUITS = ['closed', 'open', 'probing', 'blocked', 'idle'] as const;
const STATES = ['ready', 'scheduled', 'waiting', 'blocked', 'dead'] as const;
const is = (what: boolean): number => Number(what);

/** Seconds: 0 says that nobody paused it, and the clock of the database may be ahead of ours. */
const MIN_PAUSED = 0.001;

/** @param now milliseconds since the epoch */
export function healthLines(scrape: Scrape, { status, reasons, relay, transports }: OutboxHealth, now: number): void {
  for (const one of STATUSES) scrape.set(HEALTH_GAUGES.status, is(one === status), one);
  for (const code of REASON_CODES)
    scrape.set(HEALTH_GAUGES.reasons, reasons.filter((one) => one.code === code).length, code);
  scrape.set(HEALTH_GAUGES.running, is(relay.running));
  scrape.set(HEALTH_GAUGES.databaseFailing, (relay.storeDownFor ?? 0) / 1_000);
  scrape.set(HEALTH_GAUGES.heartbeatLate, relay.heartbeatLate / 1_000);
  scrape.set(HEALTH_GAUGES.snapshotHeld, is(relay.heldSnapshot !== null));
  for (const [transport, { paused }] of Object.entries(transports)) {
    const since = paused?.since.getTime() ?? now;
    scrape.set(HEALTH_GAUGES.paused, paused === null ? 0 : Math.max(MIN_PAUSED, (now - since) / 1_000), transport);
  }
  for (const [transport, { circuit }] of Object.entries(transports))
    for (const state of CIRCUITS) scrape.set(HEALTH_GAUGES.circuit, is(state === circuit), transport, state);
}

export function countLines(scrape: Scrape, { transports, away }: OutboxStats): void {
  for (const [transport, counts] of Object.entries(transports)) {
    for (const state of STATES) scrape.set(COUNT_GAUGES.messages, counts[state], transport, state);
    scrape.set(COUNT_GAUGES.blockedKeys, counts.blockedKeys, transport);
    scrape.set(COUNT_GAUGES.oldestReadyAge, (counts.oldestReadyAge ?? 0) / 1_000, transport);
    scrape.set(COUNT_GAUGES.failingOften, counts.failingOften ?? 0, transport);
    scrape.set(COUNT_GAUGES.mostAttempts, counts.mostAttempts ?? 0, transport);
    scrape.set(COUNT_GAUGES.leasedBuckets, counts.leasedBuckets, transport);
    scrape.set(COUNT_GAUGES.missingLeases, counts.missingLeases ?? 0, transport);
    scrape.set(COUNT_GAUGES.instances, counts.instances, transport);
    scrape.set(COUNT_GAUGES.destinationsAway, away.filter((one) => one.transport === transport).length, transport);
    scrape.set(COUNT_GAUGES.countsCut, is(isCut(counts)), transport);
  }
}

export function tableLines(scrape: Scrape, tables: readonly TableSize[]): void {
  for (const { table, bytes, liveRows, deadRows } of tables) {
    scrape.set(TABLE_GAUGES.bytes, bytes, table);
    scrape.set(TABLE_GAUGES.rows, Math.max(0, liveRows), table); // -1: never counted
    if (deadRows !== null) scrape.set(TABLE_GAUGES.deadRows, deadRows, table);
  }
}

export function snapshotLines(scrape: Scrape, { age, transactions }: SnapshotAge): void {
  if (age !== null) scrape.set(TABLE_GAUGES.snapshotAge, age / 1_000);
  if (transactions !== null) scrape.set(TABLE_GAUGES.snapshotTransactions, transactions);
}

const isCut = ({ readyIsExact, atLeast = [] }: OutboxTransportStats): boolean => !readyIsExact || atLeast.length > 0;
