import type { Timing } from './bounds.js';
import { Deliveries } from './deliveries.js';
import { Failovers } from './failovers.js';
import { FaultLog } from './faults.js';
import { LeaseLog } from './leases.js';
import { Ledger, POISON, transactionNumber } from './ledger.js';
import { Lives } from './lives.js';
import { countOrderedOverlaps, judgeOrder, type Ordering } from './order.js';
import { haltedNeighbours } from './neighbours.js';
import { EVIDENCE, PROMISED_ZERO } from './promises.js';
import { Receipts } from './receipts.js';
import { Recoveries } from './recoveries.js';
import { Resources, type ResourceLimits } from './resources.js';
import { Standstills } from './standstills.js';
import { judgeTakeovers, unownedBuckets, type TakeoverReport } from './takeovers.js';
import { Violations } from './violations.js';

interface Meta {
  /** Of the outbox; `key` in histories from before there was a choice. */
  readonly ordering?: Ordering;
  readonly store?: string;
  /** Each delivery had an effect. */
  readonly inbox?: boolean;
  /** Of a run; a history without it was written by hand. */
  readonly seconds?: number;
  readonly relay: Timing &
    ResourceLimits & {
      readonly relays?: number;
      readonly batchSize: number;
      readonly batchesInFlight: number;
    };
  readonly [name: string]: unknown;
}
type Line = readonly any[];

const DEAD = 4;
const IN_TABLES = 1;
const IS_DEAD = 2;
/** Rows beyond its batches that a relay may hold: retries. */
const RETRIES = 100;
/** No fault does this by itself; a relay would, and the transactions of the business must not notice relays (I10). */
const LOCKS = /deadlock|lock wait timeout|lock timeout|could not serialize|could not obtain lock/i;

/** Takes the lines of one history, in their order, and says which promises were broken. */
export class Judge {
  readonly broken = new Violations();
  private readonly ledger = new Ledger();
  private readonly faults = new FaultLog();
  private readonly leases = new LeaseLog();
  private readonly lives = new Lives();
  private readonly resources = new Resources();
  private readonly standstills = new Standstills();
  private readonly recoveries = new Recoveries(this.faults, this.lives, this.leases);
  private readonly failovers = new Failovers(this.faults, this.broken);
  private readonly receipts = new Receipts();
  private readonly deliveries = new Deliveries(this.ledger, this.faults, this.failovers, this.receipts, this.broken);
  private meta: Meta | undefined;
  private readonly seen = new Set<string>();
  private readonly figures = { relayRuns: 0, startFailures: 0, businessFailures: 0, conflicts: 0 };
  /** Of what was read through for secrets; nothing until it was. */
  private searched: { searchedFiles?: number; searchedErrors?: number } = {};
  /** Publishes of relays whose name is not known yet: it is written down a moment later. */
  private unnamed: Line[] = [];
  private dead = 0;
  private taken = 0;
  private drain = { from: 0, to: 0 };
  private drained = { count: 0, until: 0 };
  private seenInCalms = 0;

  private readonly readers: Readonly<Record<string, (line: Line) => void>> = {
    meta: ([, meta]) => (this.meta = meta),
    ready: ([, run, time]) => {
      this.lives.ready(run, time);
      this.resources.ready(run, time);
    },
    run: ([, run, slot, time]) => {
      this.figures.relayRuns += 1;
      this.lives.start(run, slot, time);
    },
    crash: (line) => this.crash(line),
    fault: ([, id, kind, runs, from]) => this.faults.begin(id, kind, runs, from),
    heal: ([, id, to]) => this.faults.end(id, to),
    lossy: ([, from, to]) => this.failovers.lossy.push({ from, to }),
    calm: ([, from, to]) => this.faults.calms.push({ from, to }),
    drain: ([, from]) => (this.drain.from = from),
    drained: ([, to]) => (this.drain.to = to),
    c: ([, writer, n, began, messages]) => this.ledger.commit(writer, n, began, messages),
    q: ([, writer, calls]) => {
      for (let i = 0; i < calls.length; i += 2)
        if (!this.ledger.committing(writer, calls[i], calls[i + 1]))
          this.failovers.called(transactionNumber(writer, calls[i]), calls[i + 1]);
    },
    e: ([, writer, ends]) => {
      for (let i = 0; i < ends.length; i += 2)
        if (!this.ledger.committed(writer, ends[i], ends[i + 1]))
          this.failovers.returned(transactionNumber(writer, ends[i]), ends[i + 1]);
    },
    o: ([, run, owner]) => this.leases.name(run, owner),
    l: ([, at, transport, bucket, owner]) => this.leases.change(at, transport, bucket, owner),
    p: (line) => {
      for (let i = 1; i < line[3].length; i += 2) this.resources.published(line[1], line[3][i]);
      this.publish(line);
    },
    r: ([, run, transport, time, since]) => this.receipts.written(run, transport, time, since),
    d: ([, run, , transport, uid]) => this.told(run, transport, uid),
    b: ([, , time, error]) => {
      this.figures.businessFailures += 1;
      if (this.faults.isCalm(time) || LOCKS.test(error)) this.broken.add('businessErrors', `${error} at ${time}`);
    },
    a: () => (this.figures.conflicts += 1),
    m: ([, run, time, rss, descriptors, delay]) => this.resources.sample(run, time, rss, descriptors, delay),
    h: ([, run, time, status, reasons]) => this.standstills.answered(run, time, status, reasons),
    w: ([, time, stands]) => this.standstills.looked(time, stands),
    n: ([, time, slot, count]) => this.resources.open('Db', time, slot, count),
    k: ([, time, slot, count]) => this.resources.open('Broker', time, slot, count),
    leak: ([, where, secret]) => this.broken.add('leaks', `${secret} in ${where}`),
    searched: ([, searchedFiles, searchedErrors]) => (this.searched = { searchedFiles, searchedErrors }),
    taken: (line) => this.takenAway(line),
    left: (line) => this.leftOver(line),
    held: ([, count]) => {
      if (count > 0) this.broken.add('heldLeases', `${count} leases after all relays had stopped`);
    },
    s: ([, transport, time, run, redelivered, uids]) => {
      if (this.drain.from > 0 && time > this.drain.from)
        this.drained = { count: this.drained.count + uids.length, until: time };
      if (this.faults.isCalm(time)) this.seenInCalms += uids.length;
      if (redelivered !== 1) this.recoveries.sighting(transport, time);
      this.deliveries.take({ transport, time, run, redelivered: redelivered === 1 }, uids, this.timing);
    },
    f: ([, transport, uids]) => {
      for (const uid of uids) {
        const entry = this.ledger.find(uid, transport);
        if (entry < 0) this.broken.add('ghosts', `an effect of ${uid}, which did not commit`);
        else this.ledger.effects.set(entry, Math.min(255, this.ledger.effects.get(entry) + 1));
      }
    },
    x: ([, transport, run, head]) => this.broken.add('corrupt', `transport ${transport}, relay ${run}: ${head}`),
  };

  private get timing(): Timing {
    return (this.meta as Meta).relay;
  }

  take(line: Line): void {
    const read = this.readers[line[0] as string];
    if (read === undefined) throw new Error(`The history has a line that nobody knows: ${String(line[0])}`);
    read(line);
    this.seen.add(line[0] as string);
  }

  /** Figures and violations. */
  verdict(): Record<string, unknown> {
    if (this.meta === undefined) throw new Error('The history has no beginning.');
    const { ledger, deliveries, broken, meta } = this;
    for (const line of this.unnamed.splice(0)) this.publish(line, true);
    this.judgeEntries();
    const orderedOverlaps = this.judgeOrder(meta);
    const takeovers = this.judgeLeases(meta.relay);
    const recoveries = this.recoveries.judge(meta.relay, this.drain.from || Infinity);
    for (const each of recoveries.slow) broken.add('slowRecoveries', each);
    const standing = this.judgeStanding(meta.relay);
    if (ledger.entries === 0) broken.add('empty', 'nothing was committed');
    if (meta.seconds !== undefined)
      for (const each of EVIDENCE) if (!this.seen.has(each)) broken.add('empty', `no line '${each}': a rule was blind`);
    this.judgeCopies(meta.relay);
    const failovers = this.failovers.judge();
    const resources = this.resources.judge(meta.relay, this.faults, broken);
    const { relay: _, transports: __, ...rest } = meta;
    return {
      ordering: 'key',
      ...rest,
      committed: ledger.entries,
      published: deliveries.published,
      faultCount: this.faults.spans.length,
      faults: this.faults.counts(),
      ...Object.fromEntries(PROMISED_ZERO.map((name) => [name, broken.of(name)])),
      perSecond: Math.round(ledger.entries / Math.max(1, (this.drain.from - this.calmFrom) / 1e6)),
      orderedOverlaps,
      duplicates: deliveries.duplicates,
      duplicatesPerMillion: Math.round((deliveries.duplicates / Math.max(1, ledger.entries)) * 1e6),
      staleDuplicates: deliveries.staleDuplicates,
      mostDuplicatesPerFault: deliveries.mostPerFault,
      redelivered: deliveries.redelivered,
      deadLetters: this.dead,
      taken: this.taken || undefined,
      takeoverP50Ms: takeovers.p50,
      takeoverP99Ms: takeovers.p99,
      takeoverMaxMs: takeovers.max,
      takeovers: takeovers.count,
      firstPublishAfterHealP50Ms: recoveries.p50,
      firstPublishAfterHealMaxMs: recoveries.max,
      firstPublishesAfterHeal: recoveries.count,
      ...failovers,
      failoverDuplicates: deliveries.ofFailovers || undefined,
      ...standing,
      ...this.figures,
      ...resources,
      ...this.searched,
      ...latencies(deliveries.calmLatencies),
      ...this.drainFigures(),
      broken: [...broken.counts.keys()],
    };
  }

  /** @returns of a strict order, how often it was put to the test */
  private judgeOrder({ ordering = 'key', store }: Meta): number | undefined {
    const { ledger, deliveries, broken } = this;
    // Where TRUNCATE begins numbers again, it sets them back.
    const goesBack = (kind: string): boolean =>
      kind === 'numbers-back' || (kind === 'table-emptied' && store !== 'postgres');
    const setBacks = this.faults.spans.filter(({ kind }) => goesBack(kind));
    judgeOrder(ledger, deliveries.order, { ordering, setBacks }, broken);
    if (ordering === 'key') return undefined;
    const overlaps = countOrderedOverlaps(ledger, deliveries.order);
    if (overlaps === 0 && broken.of('orderBreaks') === 0)
      broken.add('empty', 'no two transactions of a key overlapped, of which a strict order promises more');
    return overlaps;
  }

  private judgeLeases(timing: Timing): TakeoverReport {
    const { leases, lives, faults, drain, broken } = this;
    const report = judgeTakeovers(leases, faults, timing, drain.to);
    for (const each of report.slow) broken.add('slowTakeovers', each);
    const quiet = [...faults.calms.map(({ to }) => to), drain.to];
    for (const each of unownedBuckets(leases, lives, faults, timing, quiet)) broken.add('unownedBuckets', each);
    return report;
  }

  /** Whether all goes on that nothing hinders, and if not, whether anybody says why. */
  private judgeStanding(timing: Meta['relay']): { judgedAbsences: number; explainedStandstills: number } {
    const { standstills, recoveries, faults, lives, drain, broken } = this;
    const { sightings } = recoveries;
    const { judged, halted } = haltedNeighbours(sightings, faults, timing.relays ?? 0, drain.from || Infinity);
    for (const each of halted) broken.add('haltedNeighbours', each);
    const { explained, unexplained } = standstills.judge(faults, lives, timing);
    for (const each of unexplained) broken.add('unexplainedStandstills', each);
    return { judgedAbsences: judged, explainedStandstills: explained };
  }

  /** What one fault may cost. */
  private judgeCopies({ batchSize, batchesInFlight }: Meta['relay']): void {
    const { deliveries, broken } = this;
    const inFlight = batchSize * (batchesInFlight + 2) + RETRIES;
    if (deliveries.mostPerFault > inFlight)
      broken.add('tooManyDuplicates', `${deliveries.mostPerFault} of one fault; a relay holds ${inFlight}`);
  }

  /** Printed, not judged: `README.md` beside the checker says why. */
  private drainFigures(): Record<string, number> {
    const { drain, drained, faults, seenInCalms } = this;
    const calm = faults.calms.reduce((sum, { from, to }) => sum + to - from, 0);
    return {
      calmPerSecond: Math.round(seenInCalms / Math.max(1, calm / 1e6)),
      drainMs: Math.round((drain.to - drain.from) / 1_000),
      drainMessages: drained.count,
      drainPerSecond: Math.round(drained.count / Math.max(1, (drained.until - drain.from) / 1e6)),
    };
  }

  /** When the writers began: the first thing of a run is a calm. */
  private get calmFrom(): number {
    return this.faults.calms[0]?.from ?? 0;
  }

  private judgeEntries(): void {
    const { ledger, broken } = this;
    for (let entry = 0; entry < ledger.entries; entry += 1) {
      const effects = ledger.effects.get(entry);
      if (this.meta?.inbox === true && effects !== (ledger.first.get(entry) < 0 ? 0 : 1))
        broken.add('effectsNotOnce', `${effects} of ${ledger.text(entry)}`);
      const state = ledger.left.get(entry);
      if (state === IN_TABLES) broken.add('stuck', ledger.text(entry));
      else if (ledger.taken.get(entry) === 1) continue;
      else if (ledger.kind.get(entry) >= POISON) {
        if (state !== IS_DEAD) broken.add('lost', `${ledger.text(entry)}, which should be dead, is nowhere`);
        else if (ledger.told.get(entry) === 0) broken.add('untoldDeadLetters', ledger.text(entry));
      } else if (state === IS_DEAD) broken.add('wrongDeadLetters', ledger.text(entry));
      else if (ledger.first.get(entry) < 0) broken.add('lost', ledger.text(entry));
    }
  }

  private publish(line: Line, atEnd = false): void {
    const [, run, transport, starts] = line;
    if (!this.leases.knows(run)) {
      if (!atEnd) this.unnamed.push(line);
      return;
    }
    for (let i = 0; i < starts.length; i += 2) {
      const [bucket, time] = [starts[i], starts[i + 1]];
      if (this.leases.owns(run, transport, bucket, time) || this.failovers.mayForget(time, this.timing)) continue;
      this.broken.add('publishAfterLease', `relay ${run}, transport ${transport}, bucket ${bucket} at ${time}`);
    }
  }

  private crash([, run, time, code, signal, wasReady]: Line): void {
    this.lives.ended(run, time);
    if (wasReady === true) this.broken.add('crashes', `relay ${run} at ${time}, code ${code}, signal ${signal}`);
    else this.figures.startFailures += 1;
  }

  private told(run: number, transport: number, uid: number): void {
    const entry = this.ledger.find(uid, transport);
    if (entry < 0) this.failovers.told.push({ run, uid });
    else this.ledger.told.set(entry, 1);
  }

  private takenAway([, time, transport, uids]: Line): void {
    for (const uid of uids) {
      const entry = this.ledger.find(uid, transport);
      if (entry < 0) this.broken.add('ghosts', `${uid} in the table that was emptied at ${time}, which did not commit`);
      else this.ledger.taken.set(entry, 1);
    }
    this.taken += uids.length;
  }

  private leftOver([, table, state, transport, uid]: Line): void {
    const dead = table === 'parked' && state === DEAD;
    const entry = this.ledger.find(uid, transport);
    if (entry < 0) this.broken.add('ghosts', `${uid} in ${table}, which did not commit`);
    else this.ledger.left.set(entry, dead ? IS_DEAD : IN_TABLES);
    if (dead) this.dead += 1;
  }
}

function latencies(all: number[]): Record<string, number> {
  const sorted = Float64Array.from(all).sort();
  const at = (share: number): number => Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 10) / 10;
  return { calmLatencyP50Ms: at(0.5), calmLatencyP99Ms: at(0.99), calmLatencyMaxMs: at(1) };
}
