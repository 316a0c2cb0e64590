import type { OutboxEventMap, OutboxEventName } from '../../lib/observe/events.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import type { History } from './history.js';
import { isOfNumbers } from './plan-faults.js';
import type { Plan } from './plan.js';
import type { World } from './world.js';

/** What relays say of themselves, held against what is true. */
export class Said {
  /** @internal */ readonly numbersGoBack: boolean;

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
    if (history.traced) history.tell(`${name}: ${event} ${JSON.stringify(about, skipErrors)}`);
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
