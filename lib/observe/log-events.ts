import type { LoggerService } from '@nestjs/common';
import type { Clock } from '../time/clock.js';
import { durationText } from '../time/duration.js';
import { isThenable } from '../message/is-thenable.js';
import { pausedPart } from './paused.js';
import { errorText } from './redact/error-text.js';
import type { OutboxEventMap, OutboxEventName } from './events.js';
import { LogLine, type LogFields } from './log-line.js';
import type { EventStream } from './event-stream.js';

export type LogLevel = 'debug' | 'log' | 'warn' | 'error' | 'silent';
const RANK: Record<LogLevel, number> = { debug: 0, log: 1, warn: 2, error: 3, silent: 4 };
/** A line that says the same as one less than this ago is counted, not printed. */
const REPEAT_AFTER = 30_000;
/** Different lines whose repetition is watched. */
const MAX_REMEMBERED = 200;

interface Line {
  readonly level: Exclude<LogLevel, 'silent'>;
  readonly text: string;
  readonly fields: LogFields;
  /** Lines with the same key are rate-limited together. */
  readonly repeatKey?: string;
}
const pauseFields = ({ transport, topic, key, by, reason, since }: OutboxEventMap['paused']): LogFields => ({
  transport,
  ...(topic === null ? {} : { topic }),
  ...(key === null ? {} : { key }),
  by,
  reason,
  since: since.toISOString(),
});
const HELD =
  'buckets are held by other instances: those that live give back what is more than their share, of others the leases run out';
const PARTITION_CHANGES: Readonly<Record<OutboxEventMap['partitionChange']['change'], string>> = {
  create: 'a partition of the archive is made',
  drop: 'a partition of the archive is dropped',
  setAside: 'what landed in the catch-all of the archive is put aside, to be moved',
  convert: 'the archive becomes a partitioned table',
};
type Lines = { [K in OutboxEventName]: (event: OutboxEventMap[K]) => Line | undefined };

/** Every event and its line. Ids of messages appear only where one message is the news. */
const LINES: Lines = {
  enqueued: ({ ids }) => ({ level: 'debug', text: 'enqueued', fields: { count: ids.length } }),
  deduplicated: ({ ids }) => ({ level: 'debug', text: 'known, not written', fields: { count: ids.length } }),
  published: ({ transport, ids, batches }) => ({
    level: 'debug',
    text: 'published',
    fields: { transport, count: ids.length, batches },
  }),
  retried: ({ delay, ...fields }) => ({
    level: 'debug',
    text: 'message will be tried again',
    fields: { ...fields, delay: durationText(Math.round(delay)) },
  }),
  dead: (fields) => ({ level: 'error', text: 'message is dead', fields: { ...fields } }),
  failed: ({ transport, count, exampleId, blame, error, batch }) => ({
    level: 'warn',
    text: 'publish failed',
    fields: { transport, blame, count, exampleId, error, batch },
    repeatKey: `${transport} ${blame} ${error}`,
  }),
  connected: ({ transport, took, kind, broker }) => ({
    level: 'log',
    text: `transport '${transport}' connected (${broker === undefined ? kind : `${kind} ${broker}`})`,
    fields: { transport, took: durationText(Math.round(took)) },
  }),
  firstPublished: ({ transport, ...fields }) => ({
    level: 'log',
    text: `transport '${transport}' published its first message since the start`,
    fields: { transport, ...fields },
  }),
  circuitOpened: ({ transport, error, retryIn }) => ({
    level: 'error',
    text: 'transport is down, publishing pauses',
    repeatKey: `${transport} ${error}`,
    fields: { transport, retryIn: durationText(Math.round(retryIn)), error },
  }),
  circuitClosed: ({ transport, openFor }) => ({
    level: 'log',
    text: 'transport is back',
    fields: { transport, after: durationText(Math.round(openFor)) },
  }),
  paused: (pause) => ({
    level: 'warn',
    text:
      pause.topic === null && pause.key === null
        ? `transport '${pause.transport}' is paused by an operator, nothing is published to it`
        : `${pausedPart({ ...pause, name: pause.transport })} is paused by an operator, its messages wait`,
    fields: pauseFields(pause),
  }),
  resumed: (pause) => ({
    level: 'log',
    text: `the pause of ${pausedPart({ ...pause, name: pause.transport })} is over`,
    fields: pauseFields(pause),
  }),
  destinationAway: ({ transport, destination, error }) => ({
    level: 'warn',
    text: 'destination unavailable, its messages wait',
    fields: { transport, destination, error },
    repeatKey: `${transport} ${destination}`,
  }),
  destinationBack: ({ transport, destination, awayFor, putOff }) => ({
    level: 'log',
    text: 'destination is back',
    fields: { transport, destination, after: durationText(Math.round(awayFor)), putOff },
  }),
  leasesAcquired: ({ transport, buckets }) => ({
    level: 'debug',
    text: 'buckets taken',
    fields: { transport, buckets: buckets.length },
  }),
  leasesLost: ({ transport, buckets }) => ({
    level: 'warn',
    text: 'buckets lost',
    fields: { transport, buckets: buckets.length },
  }),
  leasesHeld: ({ buckets, owners, places, runOutIn }) => ({
    level: 'log',
    text: HELD,
    fields: { buckets, owners, places, runOutIn: durationText(Math.ceil(runOutIn / 1_000) * 1_000) },
  }),
  leasesExpired: ({ owner, buckets }) => ({
    level: 'warn',
    text: 'buckets of an instance that ended, or whose lease had run out, are free or taken over',
    fields: { owner, buckets },
  }),
  snapshotHeld: ({ server, table, holder, heldFor }) => ({
    level: 'warn',
    text: `${server} keeps dead rows of ${table}, as somebody holds a snapshot`,
    fields: { holder, heldFor: durationText(Math.round(heldFor / 1_000) * 1_000) },
  }),
  snapshotReleased: ({ server, table, holder, heldFor }) => ({
    level: 'log',
    text: `${server} may remove dead rows of ${table} again`,
    fields: { holder, heldFor: durationText(Math.round(heldFor / 1_000) * 1_000) },
  }),
  cleaned: ({ published, dead, dedup }) =>
    published + dead + dedup === 0 ? undefined : { level: 'log', text: 'cleaned', fields: { published, dead, dedup } },
  partitionChange: ({ change, partition }) => ({
    level: 'log',
    text: PARTITION_CHANGES[change],
    fields: { partition },
  }),
  partitionsMaintained: ({ outcome, why, created, dropped, moved, removed, notDone }) => {
    if (outcome === 'skipped') return { level: 'debug', text: 'partitions are left', fields: { why } };
    const counts = { created: created.length, dropped: dropped.length, moved, removed };
    if (notDone.length > 0) {
      const reasons = notDone.map((each) => `${each.change} ${each.partition ?? 'the catch-all'}: ${each.why}`);
      const text = 'partitions are maintained in part';
      return { level: 'warn', text, fields: { ...counts, notDone: reasons }, repeatKey: reasons.join() };
    }
    const isDone = Object.values(counts).some((count) => count > 0);
    return isDone ? { level: 'log', text: 'partitions are maintained', fields: counts } : undefined;
  },
  started: ({ role, transports, buckets }) => ({
    level: 'log',
    text: 'started',
    fields: { role, transports, buckets },
  }),
  stopped: ({ released, took }) => ({
    level: released ? 'log' : 'warn',
    fields: { took: durationText(Math.round(took)), released },
    text: released
      ? 'stopped'
      : 'stopped before everything was given back; another instance takes over when the leases expire',
  }),
  error: ({ operation, error: thrown, retryIn: ms }) => {
    const error = errorText(thrown);
    const retryIn = ms === null ? undefined : durationText(Math.round(ms));
    return {
      level: 'error',
      text: `${operation} failed`,
      repeatKey: `${operation} ${error}`,
      fields: { operation, error, retryIn },
    };
  },
  warning: ({ text }) => ({ level: 'warn', text, fields: {}, repeatKey: text }),
};

/** Writes events to a logger: one stable line each, nothing per message at the level `log`. */
export function logEvents(events: EventStream, logger: LoggerService, level: LogLevel, clock: Clock): void {
  const repeated = new Repetition(clock);
  const listen = <K extends OutboxEventName>(name: K): void => {
    if (LOWEST[name] !== undefined && RANK[LOWEST[name]] < RANK[level]) return;
    events.on(name, (event) => {
      const line = LINES[name](event);
      if (line === undefined || RANK[line.level] < RANK[level]) return;
      const skipped = line.repeatKey === undefined ? 0 : repeated.check(`${name} ${line.repeatKey}`, name);
      if (skipped === undefined) return;
      const { runId } = event as { runId?: string };
      const fields = {
        ...line.fields,
        ...(skipped > 0 && { repeated: skipped }),
        ...(runId !== undefined && { runId }),
      };
      write(logger, line.level, new LogLine(name, line.text, fields));
    });
  };
  if (level !== 'silent') for (const name of Object.keys(LINES) as OutboxEventName[]) listen(name);
}

/** Events that are only ever logged at this level: unless it is on, nobody listens and the relay need not build them. */
const LOWEST: Partial<Record<OutboxEventName, LogLevel>> = {
  enqueued: 'debug',
  deduplicated: 'debug',
  published: 'debug',
  retried: 'debug',
  leasesAcquired: 'debug',
  cleaned: 'log',
  partitionChange: 'log',
  started: 'log',
  connected: 'log',
  leasesHeld: 'log',
  firstPublished: 'log',
  circuitClosed: 'log',
  destinationBack: 'log',
  resumed: 'log',
  snapshotReleased: 'log',
};

/** `debug` is optional in a LoggerService. What a logger promises and does not keep has nowhere to be told. */
export function write(logger: LoggerService, level: Exclude<LogLevel, 'silent'>, line: LogLine): void {
  const result: unknown = level === 'debug' ? logger.debug?.(line) : logger[level](line);
  if (isThenable(result)) result.then(undefined, () => undefined);
}

class Repetition {
  readonly seen = new Map<string, { since: number; skipped: number }>();
  constructor(readonly clock: Clock) {}

  /** Left out since the last line; `undefined`: this one, too. `rest`: for what comes while too many others are young. */
  check(key: string, rest: string): number | undefined {
    const now = this.clock.monotonic();
    const last = this.seen.get(key);
    if (last !== undefined && now - last.since < REPEAT_AFTER) return void (last.skipped += 1);
    this.seen.delete(key);
    const [oldest] = this.seen.size < MAX_REMEMBERED ? [] : this.seen;
    if (oldest !== undefined && key !== rest && now - oldest[1].since < REPEAT_AFTER) return this.check(rest, rest);
    if (oldest !== undefined) this.seen.delete(oldest[0]);
    this.seen.set(key, { since: now, skipped: 0 });
    return last?.skipped ?? 0;
  }
}
