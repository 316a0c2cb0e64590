import type { OutboxEventMap, OutboxEventName } from '../../lib/index.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import type { History } from './history.js';
import { isOfNumbers } from './plan-faults.js';
import type { Plan } from './plan.js';
import type { World } from './world.js';

/** What relays say of themselves, held against what is true. */
export class Said {
  /** @internal */ readonly numbersGoBack: boolean;
  /** Of a process and a destination, whether it is there by the last word that this process has of the broker. @internal */
  readonly words = new Map<string, boolean>();
  /** Those that a process told as missing. @internal */ readonly away = new Set<string>();

  constructor(
    readonly world: World,
    readonly history: History,
    readonly options: ResolvedOptions,
    plan: Plan,
  ) {
    this.numbersGoBack = plan.faults.some(({ kind }) => isOfNumbers(kind));
  }

  /** @param name of the process */
  hear<E extends OutboxEventName>(name: string, event: E, about: OutboxEventMap[E]): void {
    const { history, world, options } = this;
    const is = <K extends OutboxEventName>(wanted: K): OutboxEventMap[K] | undefined =>
      (event as OutboxEventName) === wanted ? (about as OutboxEventMap[K]) : undefined;
    this.warned(name, is('warning')?.text ?? '');
    if (event === 'leasesLost' && !history.isExcused([name], world.now - 2 * options.lease, world.now))
      history.violated(15, `${name} lost leases without a fault`);
    history.longestProbe = Math.max(history.longestProbe, is('circuitOpened')?.retryIn ?? 0);
    this.destination(name, is('destinationAway')?.destination, is('destinationBack')?.destination);
    if (history.traced) history.tell(`${name}: ${event} ${JSON.stringify(about, skipErrors)}`);
  }

  /** An answer of the broker reaches a process. */
  word(name: string, destination: string, isThere: boolean): void {
    this.words.set(`${name}: ${destination}`, isThere);
  }

  /** It was missing, or there, for long enough. */
  mustBeTold(name: string, destination: string, missing: boolean): void {
    if (this.away.has(`${name}: ${destination}`) === missing) return;
    const what = missing ? 'is missing, and nobody says so' : 'is back, and nobody says so';
    this.history.violated(21, `${destination} ${what}: ${name}`);
  }

  /** Invariant 21. @internal */
  destination(name: string, away: string | undefined, back: string | undefined): void {
    if (away !== undefined) this.away.add(`${name}: ${away}`);
    if (back === undefined) return;
    this.away.delete(`${name}: ${back}`);
    if (this.words.get(`${name}: ${back}`) !== true)
      this.history.violated(21, `${name} says that ${back} is back, and the broker did not`);
  }

  /** @internal */ warned(name: string, text: string): void {
    if (!this.numbersGoBack && AGAIN.test(text)) this.history.violated(8, `${name} took positions for wrong: ${text}`);
    if (OVERTAKEN.test(text)) this.history.overtaken = true;
  }
}

/** Of the warning that everything is read again. */
const AGAIN = /everything is read again/;
/** Of the one that a message may have been passed by later ones of its key. */
const OVERTAKEN = /whose INSERT took more than/;
const skipErrors = (name: string, value: unknown): unknown =>
  value instanceof Error ? value.message : name === 'runId' ? undefined : value;
