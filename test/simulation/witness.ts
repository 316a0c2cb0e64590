import type { OutboxMessage } from '../../lib/index.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { mayBePassed, ownFailures, precedes, STRIKES, type Fate, type History } from './history.js';
import type { SimulatedProcess } from './process.js';
import type { MemoryDatabase } from './store/memory-database.js';
import { blockingRows } from './store/memory-keys.js';
import type { LeaseRow, ParkedRow, ReadyRow } from './store/memory-rows.js';
import type { MemoryWatch } from './store/memory-watch.js';

/** One process's connection to the broker of one transport. */
export interface Line {
  readonly process: SimulatedProcess;
  /** The transport's number. */
  readonly id: number;
}

/**
 * Holds every publish and every write against the invariants of docs/design.md while they happen: 2, 4, 5, 6, 9, 10, 11, 13,
 * 14 and 18. It sees the broker and the tables, never the inside of a relay.
 */
export class Witness implements MemoryWatch {
  /** Handed over and without a verdict, by gate. */
  readonly unresolved = new Map<Line, Map<string, Set<string>>>();
  /** The same, whatever their gate. */
  readonly out = new Map<Line, Set<Fate>>();
  /** Each was out by itself when its connection broke, and nothing got through since. */
  readonly failedAlone = new Map<Line, Set<Fate>>();
  /** Of a process the epoch under which a read last showed it each row; absent when it did not have the lease. */
  readonly readUnder = new Map<string, Map<string, bigint>>();
  /** Failures that were written down as a message's own. */
  charged = 0;

  constructor(
    readonly history: History,
    readonly database: MemoryDatabase,
    readonly options: ResolvedOptions,
  ) {
    database.watch = this;
  }

  // ── the broker ──────────────────────────────────────────────────────────────────────────────────────────────────

  publishing(line: Line, runs: readonly { readonly messages: readonly OutboxMessage[] }[]): void {
    const out = this.out.get(line) ?? new Set();
    this.out.set(line, out);
    this.paused(
      line,
      runs.flatMap(({ messages }) => messages),
    );
    for (const { messages } of runs) {
      const first = this.history.fates.get(messages[0]?.id ?? '');
      this.gate(line, first?.gate ?? null, messages);
      const together = new Set(messages.map(({ id }) => id));
      for (const message of messages) {
        const fate = this.history.fates.get(message.id);
        if (fate === undefined) this.history.violated(2, `${message.id} was never enqueued`);
        else {
          out.add(fate);
          this.starts(line, message, fate, together);
        }
      }
    }
  }

  resolved(line: Line, { id }: OutboxMessage, ok: boolean): void {
    const fate = this.history.fates.get(id);
    if (ok) this.gotThrough(line, fate);
    if (fate !== undefined) {
      this.out.get(line)?.delete(fate);
      if (ok) fate.receipt = fate.under;
    }
    const gate = fate?.gate ?? null;
    const gates = this.unresolved.get(line);
    const ids = gate === null ? undefined : gates?.get(gate);
    if (gate !== null && ids?.delete(id) === true && ids.size === 0) gates?.delete(gate);
  }
  /** Another one's success is what tells a message that kills its connection from an outage. @internal */
  gotThrough(line: Line, fate: Fate | undefined): void {
    const suspects = this.failedAlone.get(line) ?? [];
    this.failedAlone.delete(line);
    for (const suspect of suspects) if (suspect !== fate) suspect.strikes += 1;
  }
  /** The connection broke: over what was on it, for all that anybody knows. No other failure may ever be charged. */
  broke(line: Line): void {
    const [fate, ...others] = this.out.get(line) ?? [];
    if (fate === undefined || others.length > 0) return;
    this.failedAlone.set(line, (this.failedAlone.get(line) ?? new Set()).add(fate));
  }
  tornDown(line: Line): void {
    const out = [...(this.out.get(line) ?? [])];
    for (const fate of out) fate.doubtful = true;
    this.out.delete(line);
    this.unresolved.delete(line);
  }

  seen(id: string, by: string): void {
    const fate = this.history.fates.get(id);
    if (this.history.traced) this.history.tell(`${by}: broker takes ${fate?.name ?? id}`);
    if (fate === undefined) return;
    fate.taken.push(this.history.now());
    this.history.sightings.push(fate);
  }

  refused(fate: Fate): void {
    fate.refused += 1;
    const { by, epoch } = fate.under ?? { by: '', epoch: 0n };
    fate.refusals = { by, epoch, before: fate.refusals };
  }

  /**
   * What was begun before a process heard of a pause may still be on its way to the connection: for as long as a publish may take,
   * and no longer. @internal
   */
  paused({ process, id }: Line, messages: readonly OutboxMessage[]): void {
    for (const { scope, since } of process.knowsPaused.values()) {
      const { transport, topic, key } = scope;
      if (transport !== id || this.history.now() - since <= this.options.publishTimeout) continue;
      const held = messages.filter((one) => (topic ?? one.topic) === one.topic && (key ?? one.key) === one.key);
      if (held.length === 0) continue;
      this.history.violated(PAUSED, `${this.names(held)} goes while ${process.name} knows that it is paused`);
    }
  }

  /** Invariant 4. @internal */
  gate(line: Line, gate: string | null, messages: readonly OutboxMessage[]): void {
    if (gate === null) return;
    let gates = this.unresolved.get(line);
    if (gates === undefined) this.unresolved.set(line, (gates = new Map()));
    const others = gates.get(gate);
    if (others !== undefined)
      this.history.violated(4, `${this.names(messages)} goes while ${[...others].length} of its key are out`);
    gates.set(gate, new Set(messages.map(({ id }) => id)));
  }

  /** @internal */ starts(
    { process, id }: Line,
    message: OutboxMessage,
    fate: Fate,
    together: ReadonlySet<string>,
  ): void {
    const { history, database } = this;
    const now = history.now();
    fate.attempted ??= now;
    if (history.traced) history.tell(`${process.name}: publishes ${fate.name}`);
    if (!fate.writer.isDurable && !fate.lost)
      history.violated(2, `${fate.name} is published, and its commit is ${fate.writer.state}`);
    if (fate.removed !== undefined) history.violated(11, `${fate.name} is published after it was removed`);
    const lease = database.lease(id, message.bucket);
    fate.under = { by: process.name, epoch: lease?.epoch ?? 0n, before: fate.under };
    fate.receipt = undefined; // the one before was written, and a crash lost it; the process has none for this publish
    if (this.options.coordination === 'rowLock') return;
    const left = lease?.owner === process.name ? lease.expiresAt - database.now() : -1;
    if (left < this.options.publishTimeout) {
      history.violated(
        5,
        `${fate.name} is published by ${process.name}, whose lease is good for ${left.toFixed(0)} ms`,
      );
    } else {
      this.behindOthers(message, fate, together);
      this.inOrder(id, message, fate, together);
    }
  }

  /** Invariant 10, of a scheduled message: what blocked its key when it fell due, and still does, goes first. @internal */
  behindOthers({ parkedState, seq }: OutboxMessage, fate: Fate, together: ReadonlySet<string>): void {
    if (parkedState === 'scheduled' && fate.gate !== null)
      this.history.violated(10, `${fate.name} is published and has no place in its order`);
    const isThrough = (other: Fate): boolean => {
      const row = [...this.database.parked.values()].find(({ id }) => id === other.id);
      if (row === undefined || BigInt(row.seq) > BigInt(seq)) return true; // numbers went back before it fell due
      if (!row.blocking || other.taken.length > 0 || together.has(other.id)) return true;
      // Dead and passed by the others, it may have been requeued after this one was taken.
      return this.isDeadBySkip(other) || (this.options.retry.onDead === 'skip' && other.deaths > 0);
    };
    if (this.history.touched.has(fate.key ?? '')) return; // an operator let it go on
    const first = fate.behind.find((other) => !isThrough(other));
    if (first !== undefined) this.history.violated(10, `${fate.name} is published past ${first.name}`);
  }

  /** Invariants 9 and 10: of what blocks its key nothing stands before it. @internal */
  inOrder(
    transport: number,
    { bucket, seq, key, parkedId }: OutboxMessage,
    fate: Fate,
    together: ReadonlySet<string>,
  ): void {
    if (key === null || fate.scheduled || this.options.ordering !== 'key' || this.history.touched.has(key)) return;
    const blocking = this.history.requeued.has(key) ? [] : blockingRows(this.database, transport, bucket, key);
    for (const row of blocking) {
      if (parkedId !== null && BigInt(row.seq) >= BigInt(seq)) return;
      const other = this.history.fates.get(row.id);
      if (other === undefined || other.scheduled || together.has(row.id) || other.taken.length > 0) continue;
      if (this.isDeadBySkip(other)) continue;
      const number = parkedId === null ? 9 : 10;
      if (number === 10 && (!precedes(other, fate) || this.cameLate(other, fate))) continue; // it became visible late
      this.history.violated(number, `${fate.name} is published while ${other.name} is ${row.state} and blocks its key`);
    }
  }

  /** The other was parked after this one had been marked as being sent, and its place in the order is not promised. @internal */
  cameLate(other: Fate, fate: Fate): boolean {
    return other.parkedAt > fate.markedAt && (this.database.caughtUp || mayBePassed(this.history, other, fate));
  }

  /** Decided, and perhaps not written yet. @internal */
  isDeadBySkip(fate: Fate): boolean {
    const { onDead, maxAttempts } = this.options.retry;
    return onDead === 'skip' && maxAttempts !== null && ownFailures(fate) >= maxAttempts;
  }

  // ── the tables ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Invariant 18. */
  leased(row: LeaseRow, before: Readonly<LeaseRow>): void {
    this.reconnected();
    if (row.epoch <= before.epoch) this.history.violated(18, `epoch ${row.epoch} follows ${before.epoch}`);
    if (before.owner !== null && before.expiresAt > this.database.now())
      this.history.violated(18, `${String(row.owner)} takes bucket ${row.bucket} from ${before.owner} before its time`);
    const onTrial = this.history.fates.get(row.trial ?? '');
    if (onTrial !== undefined) onTrial.poison += 1;
  }

  reconnected(): void {
    this.history.begun.push(this.history.now());
  }

  read(rows: readonly (ReadyRow | ParkedRow)[]): void {
    if (rows.length === 0) return;
    const { actor } = this.history;
    let epochs = this.readUnder.get(actor);
    if (epochs === undefined) this.readUnder.set(actor, (epochs = new Map()));
    for (const row of rows) {
      const { id, transport, bucket } = row;
      const fate = this.history.fates.get(id);
      if ('parkedId' in row && fate !== undefined) fate.markedAt = this.history.now();
      const lease = this.database.lease(transport, bucket);
      if (lease?.owner === actor) epochs.set(id, lease.epoch);
      else epochs.delete(id);
    }
  }

  /** Invariant 14, and 1: nothing leaves as published that the broker does not have. */
  settled(row: ReadyRow): void {
    const fate = this.history.fates.get(row.id);
    if (fate === undefined || fate.taken.length === 0)
      this.history.violated(14, `${fate?.name ?? row.id} is settled and was never taken by the broker`);
  }

  /** A receipt that is written is held by nobody any more: a crash may take back what was written. */
  heard(messages: readonly { readonly id: string }[]): void {
    for (const { id } of messages) {
      const fate = this.history.fates.get(id);
      if (fate !== undefined) fate.receipt = undefined;
    }
  }

  parked(row: ParkedRow): void {
    const fate = this.history.fates.get(row.id);
    if (fate === undefined) return;
    fate.parked += 1;
    fate.parkedAt = this.history.now();
    if (fate.parked > 1) this.history.violated(10, `${fate.name} is parked for the second time`);
    this.transition(row, 0, fate);
  }

  reparked(row: ParkedRow, attemptsBefore: number): void {
    const fate = this.history.fates.get(row.id);
    if (fate !== undefined) this.transition(row, attemptsBefore, fate);
  }

  joined({ id }: ParkedRow, behind: readonly ParkedRow[]): void {
    const fate = this.history.fates.get(id);
    if (fate !== undefined) fate.behind = behind.flatMap((row) => this.history.fates.get(row.id) ?? []);
  }

  requeued({ id, key }: ParkedRow): void {
    const fate = this.history.fates.get(id);
    if (fate === undefined) return;
    fate.forgiven = fate.refused;
    if (key !== null) this.history.requeued.add(key);
  }
  removed(row: ReadyRow | ParkedRow): void {
    const fate = this.history.fates.get(row.id);
    if (fate === undefined) return;
    fate.removed = this.history.now();
    if (!('parkedId' in row)) this.nobodySends(row, fate);
  }

  /** Invariant 11, of what is ready: its owner is not sending it, and has no receipt for it. @internal */
  nobodySends({ transport, bucket }: ReadyRow, fate: Fate): void {
    const { owner, epoch, expiresAt } = this.database.lease(transport, bucket) ?? {};
    const { under, receipt } = fate;
    if (owner === null || (expiresAt ?? 0) <= this.database.now()) return;
    const isOwners = (each: typeof under): boolean => each?.by === owner && each?.epoch === epoch;
    const isOut = [...this.out].some(([line, fates]) => line.process.name === owner && fates.has(fate));
    if (isOut && isOwners(under)) this.history.violated(11, `${fate.name} is removed while ${owner} sends it`);
    if (isOwners(receipt)) this.history.violated(11, `${fate.name} is removed, and ${owner} has a receipt for it`);
  }

  /** Invariants 6 and 13. @internal */
  transition(row: ParkedRow, attemptsBefore: number, fate: Fate): void {
    const { history, database } = this;
    if (history.traced) history.tell(`${history.actor}: ${fate.name} is ${row.state}, ${row.attempts} attempts`);
    if (row.state === 'dead') fate.deaths += 1;
    const own = ownFailures(fate);
    if (row.attempts > own)
      history.violated(13, `${fate.name} is charged with ${row.attempts} failures of which ${own} are its own`);
    if (row.attempts > attemptsBefore) this.charged += 1;
    if (this.options.coordination === 'rowLock') return;
    const { owner, epoch } = database.lease(row.transport, row.bucket) ?? {};
    const read = this.readUnder.get(history.actor)?.get(row.id);
    if (owner !== history.actor || read !== epoch)
      history.violated(
        6,
        `${history.actor} writes that ${fate.name} is ${row.state} under epoch ${epoch} of ${owner}, and read it under ${read}`,
      );
    if (row.attempts <= attemptsBefore) return;
    let each = fate.strikes >= STRIKES ? fate.under : fate.refusals;
    while (each !== undefined && (each.by !== history.actor || each.epoch !== epoch)) each = each.before;
    if (each === undefined && fate.poison === 0)
      history.violated(6, `${history.actor} writes a failure of ${fate.name} that is not of epoch ${epoch}`);
  }

  /** @internal */ names(messages: readonly OutboxMessage[]): string {
    return messages.map(({ id }) => this.history.fates.get(id)?.name ?? id).join(' ');
  }
}

/** Number of the invariant: nothing is begun of what is known to be paused. */
const PAUSED = 22;
