import type { OutboxMessage, Place } from '../outbox-message.js';
import type { DeadLetter, Death, LockedOutcome, RowLockStore } from '../store/parked-store.js';
import type { FetchResult, ReadPosition } from '../store/ready-store.js';
import type { OutboxStore } from '../store/outbox-store.js';

/** More messages of others than that are no leftovers, but somebody's data. */
const MOST_OTHERS = 100_000;

/** Which messages of the tables a test publishes: those that its application enqueued. */
export class OwnMessages {
  /** The others' as well. */ all = false;
  readonly ids = new Set<string>();
  /** Ids of others' messages that were met, and left. */
  readonly left = new Set<string>();
  /** Where these are ready. */
  readonly places = new Set<string>();

  /** A drain begins: numbers may be others' by now, after a TRUNCATE. */
  begin(all: boolean): void {
    this.all = all;
    this.left.clear();
    this.places.clear();
  }

  add(ids: Iterable<string>): void {
    for (const id of ids) this.ids.add(id);
  }

  has({ id }: Pick<OutboxMessage, 'id'>): boolean {
    if (this.all || this.ids.has(id)) return true;
    if (this.left.size >= MOST_OTHERS)
      throw new Error(
        `The outbox tables of this test hold more than ${MOST_OTHERS} messages that its application did not enqueue. ` +
          'Give tests a database, schema or prefix of their own.',
      );
    this.left.add(id);
    return false;
  }

  ofPlaces(transport: number, messages: readonly OutboxMessage[]): OutboxMessage[] {
    return messages.filter((message) => {
      const isOwn = this.has(message);
      if (!isOwn) this.places.add(placeName(transport, message));
      return isOwn;
    });
  }

  isLeft(transport: number, place: Place): boolean {
    return !this.all && this.places.has(placeName(transport, place));
  }
}

const placeName = (transport: number, { bucket, seq }: Place): string => `${transport} ${bucket} ${seq}`;

/** The store as a relay sees it that knows of no other messages. */
export function onlyOwn(store: OutboxStore, own: OwnMessages): OutboxStore {
  const ready = over(store.ready, {
    fetch: (request) => fetchOwn(store, own, request),
    async readPlaces(transport, places, visibleIn) {
      const read = await store.ready.readPlaces(transport, places, visibleIn);
      return { ...read, messages: own.ofPlaces(transport, read.messages) };
    },
    async sweep(transport, ranges, known = 0) {
      const { places, complete } = await store.ready.sweep(transport, ranges, known + own.places.size);
      return { places: places.filter((place) => !own.isLeft(transport, place)), complete };
    },
  });
  const parked = over(store.parked, {
    async take(request) {
      const taken = await store.parked.take(request);
      // The others stay marked for as long as the lease: nobody can have them now but its owner, and it gives them back with it.
      return { ...taken, messages: taken.messages.filter((message) => own.has(message)) };
    },
    unannouncedDead: (transports, limit, after) => ownDead(store, own, { transports, limit, after }),
  });
  const rowLocks = over(store.rowLocks, { withLockedRows: (request, work) => lockOwn(store, own, request, work) });
  return over(store, { ready, parked, rowLocks });
}

/** It, with some of its members replaced. */
function over<T extends object>(whole: T, own: Partial<T>): T {
  return new Proxy(whole, {
    get(target, name) {
      const value: unknown = name in own ? own[name as keyof T] : Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Past pages that are the others'. What became visible behind these meanwhile is no news to the first snapshot. */
async function fetchOwn(
  store: OutboxStore,
  own: OwnMessages,
  request: Parameters<OutboxStore['ready']['fetch']>[0],
): Promise<FetchResult> {
  const first = await store.ready.fetch(request);
  let { positions } = request;
  for (let read = first; ; read = await store.ready.fetch({ ...request, positions })) {
    const messages = own.ofPlaces(request.transport, read.messages);
    const isOver = read.messages.length === 0 || read.session !== first.session;
    if (messages.length > 0 || isOver) return { ...read, messages, snapshot: first.snapshot };
    positions = behind(positions, read.messages);
  }
}

function behind(positions: readonly ReadPosition[], messages: readonly OutboxMessage[]): ReadPosition[] {
  const last = new Map(messages.map(({ bucket, seq }) => [bucket, seq]));
  return positions.map(({ bucket, after }) => ({ bucket, after: last.get(bucket) ?? after }));
}

async function ownDead(
  store: OutboxStore,
  own: OwnMessages,
  request: { readonly transports: readonly number[]; readonly limit: number; readonly after: Death | undefined },
): Promise<DeadLetter[]> {
  let { transports, after } = request;
  for (;;) {
    const letters = await store.parked.unannouncedDead(transports, request.limit, after);
    const mine = letters.filter(({ message }) => own.has(message));
    const last = letters.at(-1);
    if (mine.length > 0 || last === undefined || letters.length < request.limit) return mine;
    transports = transports.slice(transports.indexOf(last.transport));
    after = last;
  }
}

/** Rows are locked from the first on: with so many of others in front, more of them. */
async function lockOwn(
  store: OutboxStore,
  own: OwnMessages,
  request: Parameters<RowLockStore['withLockedRows']>[0],
  work: Parameters<RowLockStore['withLockedRows']>[1],
): ReturnType<RowLockStore['withLockedRows']> {
  for (let limit = request.limit; ; limit *= 2) {
    let isFull = false;
    let locked = 0;
    const report = await store.rowLocks.withLockedRows({ ...request, limit }, async (rows, durable, session) => {
      const mine = rows.filter((message) => own.has(message)).slice(0, request.limit);
      locked = mine.length;
      isFull = locked === 0 && rows.length >= limit;
      return isFull ? NOTHING_DONE : work(mine, durable, session);
    });
    if (!isFull) return { ...report, locked };
  }
}

const NOTHING_DONE: LockedOutcome = { published: [], parked: [], reparked: [] };
