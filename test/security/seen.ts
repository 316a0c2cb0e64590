import { inspect } from 'node:util';
import type { OutboxEventName, OutboxService } from '../../lib/index.js';
import type { OutboxMessage } from '../../lib/index.js';

const EVENTS: readonly OutboxEventName[] = [
  'enqueued',
  'deduplicated',
  'published',
  'retried',
  'dead',
  'failed',
  'circuitOpened',
  'circuitClosed',
  'leasesAcquired',
  'leasesLost',
  'leasesHeld',
  'leasesExpired',
  'cleaned',
  'started',
  'stopped',
  'error',
  'warning',
];

/** Prints what an application could see of the outbox, one section each, in every form in which it may end up in a log. */
export class Seen {
  readonly events: { name: OutboxEventName; event: Record<string, unknown> }[] = [];

  listen({ events }: OutboxService): void {
    for (const name of EVENTS)
      events.on(name, (event) => {
        this.events.push({ name, event: event as unknown as Record<string, unknown> });
        this.print(`event ${name}`, event);
      });
  }

  print(what: string, value: unknown): void {
    console.log(`=== ${what}`);
    console.log(inspect(value, { depth: 12, showHidden: true, maxArrayLength: null, maxStringLength: null }));
    console.log(String(value), safeJson(value));
    for (let error = value; error instanceof Error; error = error.cause)
      console.log(error.name, error.message, error.stack, safeJson(error), safeJson(Object.entries(error)));
  }

  /** The error of what must fail. */
  async failure(what: string, work: () => unknown): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.print(`failure ${what}`, error);
      return;
    }
    throw new Error(`It did not fail: ${what}`);
  }

  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (!(await condition())) {
      if (Date.now() > deadline) throw new Error(`Never happened: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** How often there was an event of this name with these fields. */
  count(name: OutboxEventName, fields: Readonly<Record<string, unknown>>): number {
    const isMeant = ({ name: its, event }: (typeof this.events)[number]): boolean =>
      its === name && Object.entries(fields).every(([field, value]) => event[field] === value);
    return this.events.filter(isMeant).length;
  }

  /** Resolves when there was one more of these events than before the work. */
  async another(
    what: string,
    name: OutboxEventName,
    fields: Readonly<Record<string, unknown>>,
    work: () => unknown,
  ): Promise<void> {
    const before = this.count(name, fields);
    await work();
    await this.until(what, () => this.count(name, fields) > before);
  }

  /** Resolves when a transport was told to be down. */
  opened(transport: string): Promise<void> {
    return this.until(`the circuit of ${transport}`, () => this.count('circuitOpened', { transport }) > 0);
  }

  /** Resolves when an event of this name told of this message. */
  told(name: OutboxEventName, { type }: Pick<OutboxMessage, 'type'>): Promise<void> {
    return this.until(`${name} of ${type}`, () => this.count(name, { type }) > 0);
  }
}

function safeJson(value: unknown): string {
  try {
    return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part)) ?? 'undefined';
  } catch (error) {
    return String(error);
  }
}
