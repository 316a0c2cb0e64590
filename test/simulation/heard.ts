import type { OutboxDispatcher } from '../../lib/index.js';
import type { Reader } from '../../lib/relay/read/reader.js';
import { RelayLoops } from '../../lib/relay/relay-loops.js';
import { compareSeq } from '../../lib/outbox-message.js';
import type { NumberSource } from '../../lib/store/ready-store.js';
import type { MemoryDatabase } from './store/memory-database.js';

/** Of a read. */
interface Answer {
  readonly session?: number | undefined;
  readonly source?: NumberSource | undefined;
}

/**
 * What the reader of a relay was told of the numbers. Answers count once they reached it: a process that stood still, or whose
 * database or broker was away, was told nothing meanwhile. The first answer since numbers went back shows it, unless they reached
 * again what the answer before had said. Nobody can know then (docs/limits.md, "Not promised"), until all is read again.
 */
export class Heard {
  /** @internal */ session: number | undefined;
  /** @internal */ last: NumberSource | undefined;
  /** When numbers had gone back last, as the last answer was given. @internal */ asOf = -Infinity;
  /** They went back, and no answer shows it: how often all had been read again before. @internal */
  unseen: number | undefined;

  constructor(
    readonly database: Pick<MemoryDatabase, 'wentBackAt' | 'wentBackWhen'>,
    /** How often it has read all again. */
    readonly readAgain: () => number,
  ) {}

  /** Whether it can know where the numbers are. */
  get knows(): boolean {
    return this.asOf === this.database.wentBackAt && this.unseen !== this.readAgain();
  }

  /** An answer reaches it. */
  told({ session, source }: Answer): void {
    if (session !== undefined && session !== this.session) {
      this.session = session;
      this.last = undefined; // all is read again
      this.unseen = undefined;
    }
    if (source === undefined) return;
    const { last, asOf } = this;
    this.last = source;
    this.asOf = this.database.wentBackWhen.get(source) ?? -Infinity;
    if (last === undefined) return;
    if (isBack(last, source)) this.unseen = undefined;
    else if (this.asOf !== asOf) this.unseen = this.readAgain();
  }
}

const listeners = new WeakMap<Reader, Heard>();
export const heardBy = (reader: Reader): Heard | undefined => listeners.get(reader);

/** From now on it is heard what its readers are told. */
export function listenTo({ relays }: Pick<OutboxDispatcher, 'relays'>, database: MemoryDatabase): void {
  for (const each of relays) {
    if (each instanceof RelayLoops && !listeners.has(each.relay.reader)) listen(each.relay.reader, database);
  }
}

function listen(reader: Reader, database: MemoryDatabase): void {
  const heard = new Heard(database, () => reader.readAgain);
  listeners.set(reader, heard);
  const { store } = reader;
  const hears = <A extends Answer>(answer: Promise<A>): Promise<A> => {
    answer.then(
      (given) => heard.told(given),
      () => undefined,
    );
    return answer; // whoever waits for it goes on at the same moment, after this
  };
  const own: Partial<typeof store> = {
    fetch: (request) => hears(store.fetch(request)),
    readPlaces: (...args) => hears(store.readPlaces(...args)),
  };
  Object.assign(reader, { store: Object.assign(Object.create(store) as typeof store, own) });
}

const isBack = (before: NumberSource, now: NumberSource): boolean =>
  now.table !== before.table || compareSeq(now.last ?? '0', before.last ?? '0') < 0;
