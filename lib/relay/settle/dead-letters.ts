import type { Roles } from '../../store/outbox-store.js';
import { within, type Clock } from '../../time/clock.js';
import { Loop } from '../../time/loop.js';
import type { OutboxTransport } from '../../transports/transport.js';
import type { DatabaseFailures } from '../database-failures.js';
import type { RelayDependencies } from '../contracts.js';
import { readLargePayloads } from '../publish/read-large-payloads.js';
import { errorCopy } from '../../observe/redact/error-text.js';
import type { OutboxHooks } from '../../observe/events.js';
import { OutboxError } from '../../outbox.errors.js';
import type { DeadLetterEvent, ResolvedOptions } from '../../outbox.options.js';
import type { DeadLetter, Death } from '../../store/parked-store.js';

/** Letters in memory. */
const PAGE = 100;
/** Refusals after which the hook is left alone for a while; and letters that are known to be late. */
const MOST = 2_000;

/**
 * Calls the dead-letter hook at least once per death: after the death is committed, and again when the hook rejected or
 * the process died before the row was marked.
 */
export class DeadLetters {
  /** Behind this one begins the next page: a page that was refused must not hide those behind it. */
  after: Death | undefined;
  /** Since the hook was last left alone. */
  refused = 0;
  /**
   * Letters for which the hook did not end in time: they come last, or nobody behind them would ever be told; first of
   * them the one that has waited longest.
   */
  readonly late = new Set<string>();
  /** Calls that went on past their time, by death: one that ends well has told, and meanwhile nobody is told twice. */
  readonly running = new Map<string, { readonly since: number }>();

  constructor(
    readonly store: Roles<'ready' | 'parked'>,
    readonly hook: NonNullable<ResolvedOptions['deadLetter']>,
    readonly transports: ReadonlyMap<number, string>,
    readonly hooks: OutboxHooks,
    readonly clock: Clock,
    /** Milliseconds for one letter: a hook that never ends must not keep the others from being told. */
    readonly timeout: number,
  ) {}

  /** One page. @returns whether the next one should follow at once */
  async runOnce(): Promise<boolean> {
    const transports = [...this.transports.keys()];
    const from = this.after === undefined ? 0 : transports.indexOf(this.after.transport);
    const letters = await this.store.parked.unannouncedDead(transports.slice(from), PAGE, this.after);
    const { length } = letters;
    const last = letters.at(-1);
    const told: Death[] = [];
    let through = false;
    try {
      through = await this.tellAll(letters, told);
    } finally {
      if (told.length > 0) await this.store.parked.markAnnounced(told);
    }
    const full = length === PAGE;
    // What was told is no longer in the way; then the next page begins where this one did.
    if (through && !full) this.after = undefined;
    else if (through && told.length < length) this.after = last;
    this.refused += length - told.length;
    const goOn = full && (through || told.length > 0) && this.refused < MOST;
    if (!goOn) this.refused = 0;
    return goOn;
  }

  /** @returns false: the hook hung, and not all that come before the late ones had their turn */
  private async tellAll(letters: DeadLetter[], told: Death[]): Promise<boolean> {
    const turns = new Map([...this.late].map((parkedId, index) => [parkedId, index + 1]));
    const turn = ({ parkedId }: Death): number => turns.get(parkedId) ?? 0;
    letters.sort((a, b) => turn(a) - turn(b));
    // Taken out one by one: a large payload is in memory for as long as its hook runs.
    for (let letter = letters.shift(); letter !== undefined; letter = letters.shift()) {
      const { transport, parkedId, died } = letter;
      const answer = await this.tell(letter);
      if (answer === 'told') told.push({ transport, parkedId, died });
      this.note(parkedId, answer === 'late' || answer === 'running');
      if (answer === 'late') return turn(letter) > 0; // the next ones would take as long
    }
    return true;
  }

  private note(parkedId: string, late: boolean): void {
    this.late.delete(parkedId);
    if (!late) return;
    for (const oldest of this.late) if (this.late.size >= MOST) this.late.delete(oldest);
    this.late.add(parkedId);
  }

  private async tell(letter: DeadLetter): Promise<'told' | 'refused' | 'late' | 'running'> {
    const { message, transport, error, diedAt } = letter;
    if (this.runs(letter)) return 'running';
    try {
      if (!(await readLargePayloads(this.store.ready, transport, [message]))) return 'refused'; // an operator was faster
      const name = this.transports.get(transport) ?? String(transport);
      const event: DeadLetterEvent = { message, transport: name, attempts: message.attempts, error, diedAt };
      const call = Promise.resolve(this.hook(event));
      if (await within(this.clock, this.timeout, call)) return 'told';
      this.goesOn(letter, call);
      throw new HookTimeout(this.timeout);
    } catch (failure) {
      this.complain(failure, letter);
      return failure instanceof HookTimeout ? 'late' : 'refused';
    }
  }

  private runs(letter: DeadLetter): boolean {
    const place = placeOf(letter);
    const since = this.running.get(place)?.since;
    if (since === undefined) return false;
    if (this.clock.monotonic() - since < this.timeout * GIVEN_UP) return true;
    this.running.delete(place);
    return false;
  }

  private goesOn(letter: DeadLetter, call: Promise<unknown>): void {
    const place = placeOf(letter);
    const { transport, parkedId, died } = letter;
    const own = { since: this.clock.monotonic() };
    for (const oldest of this.running.keys()) if (this.running.size >= MOST) this.running.delete(oldest);
    this.running.set(place, own);
    const told = call.then(() => this.store.parked.markAnnounced([{ transport, parkedId, died }]));
    told
      .catch((failure: unknown) => this.complain(failure, letter))
      .finally(() => this.running.get(place) === own && this.running.delete(place));
  }

  private complain(failure: unknown, { message }: DeadLetter): void {
    this.hooks.emit('error', { operation: 'deadLetter', error: errorCopy(failure, [message]), retryIn: null });
  }
}

/** One that is requeued and dies again is another. */
const placeOf = ({ transport, parkedId, died }: Death): string => `${transport} ${parkedId} ${died}`;
/** A call that has not ended after so many times its time is taken for lost, and its letter told again. */
const GIVEN_UP = 30;

/**
 * Calls the dead-letter hook; `undefined` without one.
 * @param failed returns the delay until the next try
 */
export function deadLetterLoop(
  { options, store, clock, transportIds }: RelayDependencies,
  transports: ReadonlyMap<string, OutboxTransport>,
  hooks: OutboxHooks,
  failures: DatabaseFailures,
  failed: (error: unknown, pause: number) => number,
): Loop | undefined {
  if (options.deadLetter === undefined) return undefined;
  const names = new Map([...transports.keys()].map((name) => [transportIds.get(name) as number, name]));
  const letters = new DeadLetters(store, options.deadLetter, names, hooks, clock, options.publishTimeout);
  const every = Math.max(1_000, options.lease / 2);
  return new Loop(
    clock,
    async () => {
      const more = await letters.runOnce();
      failures.succeeded('deadLetter', null);
      return more ? 0 : every;
    },
    (error) => failed(error, every),
  );
}

class HookTimeout extends OutboxError {
  constructor(ms: number) {
    super(
      'TIMEOUT',
      `The deadLetter hook did not end within ${ms} ms; unless it still succeeds, it is called again for this letter.`,
    );
  }
}
