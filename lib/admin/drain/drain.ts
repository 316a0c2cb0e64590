import { errorText } from '../../observe/redact/error-text.js';
import type { TransportStats } from '../../store/admin-store.js';
import type { InspectStore } from '../../store/inspect-store.js';
import { stopwatch, systemClock } from '../../time/clock.js';
import type { ExplainSources } from '../explanation-reason.js';
import { nameOf } from '../found-message.js';
import { rest } from '../run.js';
import { DrainEnd } from './drain-end.js';
import { countOf, distanceOf, DrainLook, isNone, type Left, type LookSources } from './drain-look.js';
import type { CheckedDrain } from './drain-options.js';
import { drainReasons, type DrainReason } from './drain-reasons.js';

/** One transport at the end of a wait. Each count ends at a limit. */
export interface DrainTransport {
  readonly transport: string;
  /** Of what was there at the beginning: ready. */
  readonly ready: number;
  /** Of what was there at the beginning: it waits for a retry, is blocked, or was scheduled and is due. */
  readonly parked: number;
  /** All that are dead now. Nobody waits for them. */
  readonly dead: number;
  /** All that are scheduled now. Nobody waits for what was not due when the call began. */
  readonly scheduled: number;
}
export interface DrainReport {
  /** `timeout`: some are left. `aborted`: by its signal. */
  readonly outcome: 'drained' | 'timeout' | 'aborted';
  /** Of what was there at the beginning, each message counted once for each of its transports. */
  readonly left: number;
  /** `false`: there are more, or the last look hung when the time was over. */
  readonly isExact: boolean;
  /** How long it waited, milliseconds. */
  readonly took: number;
  /** Empty, as `reasons`: the database did not answer any more. */
  readonly transports: readonly DrainTransport[];
  /** Why they are left: each cause once, ten at most. */
  readonly reasons: readonly DrainReason[];
  /** Transactions with writes that are open now: what they enqueued is not counted. `null`: the database does not tell. */
  readonly openTransactions: number | null;
}

export interface DrainSources extends LookSources {
  readonly inspect: InspectStore;
  stats(): Promise<TransportStats[]>;
  explain(): Promise<ExplainSources>;
  openTransactions(): Promise<number | undefined>;
}

/** Milliseconds between two looks: the first, and later ones. A look that takes longer is followed by a longer rest. */
const [FIRST_REST, REST, LONGEST_REST] = [100, 1_000, 10_000];
/** Milliseconds without a word. */
const QUIET = 500;
const RESTS_PER_LOOK = 4;

/** Only reads. Once the wait is over nothing that hangs is waited for. */
export async function drain(open: () => Promise<DrainSources>, options: CheckedDrain): Promise<DrainReport> {
  const end = new DrainEnd(options);
  const begun = await end.inTime(open().then(async (sources) => ({ sources, seen: await DrainLook.begin(sources) })));
  if (begun === undefined) return reportOf(UNSEEN, 'timeout', end, undefined);
  const { sources, seen } = begun;
  const wait = new DrainWait(seen, options, end);
  for (let pause = FIRST_REST; ; pause = Math.min(2 * pause, REST)) {
    const took = await wait.look();
    const { left, error, isLate } = wait;
    const isDrained = error === undefined && isNone(left);
    if (isDrained || isLate || end.isOver) {
      if (!isDrained && !end.isAborted && error !== undefined) throw error;
      const outcome = isDrained ? 'drained' : 'timeout';
      // Behind a look that hangs other questions would wait.
      return reportOf(left, outcome, end, isLate ? undefined : askRest(sources, seen, left));
    }
    const longer = Math.min(LONGEST_REST, RESTS_PER_LOOK * took);
    await wait.rest(Math.min(Math.max(pause, longer), end.left));
  }
}

const UNSEEN: Left = { ready: [], parked: [], isExact: false };

/** Looks one after the other. The first one must come; a later one may fail. */
class DrainWait {
  left = UNSEEN;
  error: Error | undefined;
  /** The wait is over, and this look hangs. */
  isLate = false;
  private whole: number | undefined;
  private fraction = 0;

  constructor(
    readonly seen: DrainLook,
    readonly options: CheckedDrain,
    readonly end: DrainEnd,
  ) {}

  /** @returns milliseconds that it took */
  async look(): Promise<number> {
    const passed = stopwatch(systemClock);
    const goesOn = (): boolean => {
      if (!this.isLate) this.tell();
      return !this.isLate && !this.end.isOver;
    };
    this.error = undefined;
    try {
      const left = await this.end.inTime(this.seen.left(goesOn));
      this.isLate = left === undefined;
      this.left = left ?? { ...this.left, isExact: false };
    } catch (error) {
      if (this.whole === undefined) throw error;
      this.error = error instanceof Error ? error : new Error(String(error));
    }
    const distance = distanceOf(this.left, this.seen.mark);
    this.whole = Math.max(this.whole ?? 0, distance);
    const part = isNone(this.left) ? 1 : Math.min(0.99, 1 - distance / Math.max(1, this.whole));
    this.fraction = Math.max(this.fraction, part);
    this.tell();
    return passed();
  }

  /** Whoever waits hears that it goes on. */
  async rest(ms: number): Promise<void> {
    for (let left = ms; left > 0 && !this.end.isOver; left -= QUIET) {
      await rest(Math.min(left, QUIET), this.options.signal);
      if (left > QUIET) this.tell();
    }
  }

  private tell(): void {
    const { left, fraction, error } = this;
    const text = error === undefined ? null : errorText(error);
    this.options.progress({ left: countOf(left), isExact: left.isExact, fraction, error: text });
  }
}

type Rest = Pick<DrainReport, 'transports' | 'reasons' | 'openTransactions'>;
const UNKNOWN: Rest = { transports: [], reasons: [], openTransactions: null };

async function reportOf(
  left: Left,
  outcome: 'drained' | 'timeout',
  end: DrainEnd,
  asked: Promise<Rest> | undefined,
): Promise<DrainReport> {
  const isAborted = outcome === 'timeout' && end.isAborted;
  const took = Math.round(end.passed());
  const told = asked === undefined ? undefined : await end.inTime(asked);
  const known = { left: countOf(left), isExact: left.isExact, took };
  return { outcome: isAborted ? 'aborted' : outcome, ...known, ...(told ?? UNKNOWN) };
}

async function askRest(sources: DrainSources, { mark }: DrainLook, left: Left): Promise<Rest> {
  const { inspect, transport } = sources;
  const explained = await sources.explain();
  const transports = (await sources.stats())
    .filter((stats) => transport === undefined || stats.transport === transport)
    .map((stats) => ({
      transport: nameOf(stats.transport, explained.names),
      ready: countOf({ ...left, parked: [], ready: left.ready.filter((each) => each.transport === stats.transport) }),
      parked: left.parked.filter((each) => each.transport === stats.transport).length,
      dead: stats.dead,
      scheduled: stats.scheduled,
    }));
  return {
    transports,
    reasons: await drainReasons(inspect, left, mark, explained),
    openTransactions: (await sources.openTransactions()) ?? null,
  };
}
