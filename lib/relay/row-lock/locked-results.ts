import { OutboxMessage } from '../../outbox-message.js';
import type { ToldFailure } from '../publish/batch.types.js';
import { outcomeOf, type Failed } from '../settle/outcome-of.js';
import type { LockedOutcome, LockedReport, ReparkEntry } from '../../store/parked-store.js';
import type { ParkEntry } from '../../store/ready-store.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { InFlight } from '../publish/in-flight.js';
import type { Outage } from '../publish/outage.js';
import type { Trial } from '../publish/trial.js';
import type { RefusedRows } from './refused-rows.js';
import type { RunReport } from '../relay.js';
import { batchOf, tellPublished } from '../settle/tell-published.js';

/** What the results need of their relay. */
export interface LockedRelay {
  readonly deps: TransportRelayDependencies<unknown>;
  readonly outage: Outage;
  readonly flight: InFlight;
  readonly trial: Trial;
  /** What died of its last try, which may still end well. */
  readonly died: WeakSet<OutboxMessage>;
}

interface Transition extends Omit<ReparkEntry, 'parkedId' | 'bucket' | 'attemptsBefore'> {
  /** Once it is written. */
  tell(): void;
}

/** What became of one batch under row locks: what is to be written, and told when that is committed. */
export class LockedResults implements LockedOutcome {
  readonly published: OutboxMessage[] = [];
  readonly parked: ParkEntry[] = [];
  readonly reparked: ReparkEntry[] = [];
  /** Put off without a try. */
  untried = 0;
  /** With what must be written first. */
  private readonly told: { readonly entry?: ParkEntry | ReparkEntry; readonly tell: () => void }[] = [];
  private readonly messages = new Map<ParkEntry | ReparkEntry, OutboxMessage>();

  constructor(
    private readonly relay: LockedRelay,
    private readonly counts: { -readonly [name in keyof RunReport]: number },
  ) {}

  succeeded(message: OutboxMessage): void {
    this.published.push(message);
    this.relay.outage.succeeded(message);
  }

  failed(message: OutboxMessage, failure: ToldFailure): void {
    const transition = this.transition(message, outcomeOf(message, failure, this.relay));
    if (transition !== undefined) this.write(message, transition);
  }

  /** Puts it off instead of a try, where it goes to what takes nothing now, or is paused. */
  putOff(message: OutboxMessage): boolean {
    const { outage } = this.relay;
    const away = outage.absence.isOn ? outage.isAway(message) : undefined;
    if (away === undefined) return false;
    this.untried += 1;
    const outcome = outage.absence.untried(message, away);
    const isDead = outcome.kind === 'dead';
    this.write(message, {
      state: isDead ? 'dead' : 'waiting',
      blocks: false,
      attempts: outcome.attempts,
      delay: isDead ? null : outcome.delay,
      error: away.error,
      tell: () => (isDead ? this.died(message, outcome.attempts, away.error ?? '') : outage.absence.written(away)),
    });
    return true;
  }

  private write(message: OutboxMessage, { tell, ...written }: Transition): void {
    const { id, bucket, seq, parkedId, attempts } = message;
    let entry: ParkEntry | ReparkEntry;
    if (written.state === 'dead') this.relay.died.add(message);
    if (parkedId === null) this.parked.push((entry = { bucket, seq, id, ...written }));
    else this.reparked.push((entry = { parkedId, bucket, attemptsBefore: attempts, ...written }));
    this.messages.set(entry, message);
    this.told.push({ entry, tell });
  }

  /** After the commit. What was not written did not happen: it is told as that. */
  tell(refused: LockedReport['refused'], rows: RefusedRows): void {
    const left = new Set<unknown>(refused.map(({ entry }) => entry));
    for (const { entry, tell } of this.told) if (entry === undefined || !left.has(entry)) tell();
    for (const { entry, error } of refused) {
      if (entry instanceof OutboxMessage) rows.refuse(entry, error, true);
      else rows.refuse(this.messages.get(entry as ParkEntry | ReparkEntry) as OutboxMessage, error, false);
    }
    const settled = left.size === 0 ? this.published : this.published.filter((message) => !left.has(message));
    this.counts.published += settled.length;
    tellPublished(this.relay.deps, settled);
  }

  private transition(message: OutboxMessage, { outcome, charged }: Failed): Transition | undefined {
    const { relay, counts, told } = this;
    const error = charged.text;
    const { hooks, name } = relay.deps;
    const { id, type, topic } = message;
    const failed = { transport: name, ...batchOf(message), count: 1, exampleId: id, blame: charged.blame, error };
    told.push({ tell: () => hooks.emit('failed', failed) });
    if (outcome.kind === 'release') {
      if (outcome.alone && !relay.flight.onlyOne) relay.trial.markAlone(message);
      else relay.outage.failed(error, message, charged.suspect);
      return undefined;
    }
    const progress = charged.progress === undefined ? {} : { progress: charged.progress };
    const event = { transport: name, id, type, topic, ...batchOf(message), attempts: outcome.attempts, error };
    if (outcome.kind === 'dead') {
      const tell = (): void => this.died(message, outcome.attempts, error);
      return { state: 'dead', blocks: false, attempts: outcome.attempts, delay: null, error, ...progress, tell };
    }
    const { attempts, delay } = outcome;
    const tell = (): void => {
      counts.retried += 1;
      hooks.emit('retried', { ...event, delay });
    };
    return { state: 'waiting', blocks: false, attempts, delay, error, ...progress, tell };
  }

  private died(message: OutboxMessage, attempts: number, error: string): void {
    const { id, type, topic } = message;
    const { hooks, name, died } = this.relay.deps;
    this.counts.dead += 1;
    hooks.emit('dead', { transport: name, id, type, topic, ...batchOf(message), attempts, error });
    died();
  }
}
