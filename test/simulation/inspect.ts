import type { OutboxMessage } from '../../lib/index.js';
import { SnapshotLowWaterMark } from '../../lib/relay/read/snapshot-low-water-mark.js';
import { RelayLoops } from '../../lib/relay/relay-loops.js';
import type { TransportRelay } from '../../lib/relay/transport-relay.js';
import { lengthOf } from '../../lib/message/unread-payload.js';
import { compareSeq } from '../../lib/outbox-message.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import type { Relay } from './fleet.js';
import { heardBy } from './heard.js';
import type { History } from './history.js';
import type { Plan } from './plan.js';
import type { MemoryDatabase } from './store/memory-database.js';

/** That come on top: under a backlog that fills the room, retries would never find any. */
const RETRIES = 100;

type Tell = (number: number, what: string) => void;

/** Looks into a relay whenever it reads: invariants 8 and 17. */
export function inspect(
  { dispatcher, process }: Relay,
  database: MemoryDatabase,
  history: History,
  options: ResolvedOptions,
  { bytes }: Plan,
): void {
  const tell: Tell = (number, what) => history.violated(number, `${process.name}: ${what}`);
  for (const each of dispatcher.relays) {
    if (!(each instanceof RelayLoops)) continue;
    if (heardBy(each.relay.reader)?.knows !== false) floors(each.relay, database, tell);
    bounds(each.relay, options, tell);
    entries(each.relay, tell);
    if (bytes !== undefined) bytesRead(each.relay, bytes, options, tell);
  }
}

function floors({ reader, deps }: TransportRelay, database: MemoryDatabase, tell: Tell): void {
  for (const { rows, reserved } of database.open) {
    for (const { seq, bucket, transport } of rows) {
      if (transport !== deps.id) continue;
      const floor = reader.lowWaterMark.of(bucket);
      if (compareSeq(seq, floor) <= 0 && reader.heads.has(bucket))
        tell(8, `${seq} can still commit, the low-water mark is ${floor}`);
    }
    for (const seq of reserved) {
      for (const bucket of reader.heads.keys()) {
        const floor = reader.lowWaterMark.of(bucket);
        if (compareSeq(seq, floor) <= 0) tell(8, `${seq} is not even inserted, the low-water mark is ${floor}`);
      }
    }
  }
}

function bounds({ reader, room, flight, parked }: TransportRelay, options: ResolvedOptions, tell: Tell): void {
  const { batchSize, batchesInFlight, batchBytes } = options;
  const most = batchSize * (batchesInFlight + 2) + RETRIES;
  if (room.held > most || room.held < 0) tell(17, `holds ${room.held} messages of at most ${most}`);
  if (flight.messages > batchSize * batchesInFlight) tell(17, `${flight.messages} are in flight`);
  if (reader.lowWaterMark instanceof SnapshotLowWaterMark && reader.lowWaterMark.checkpoints.length > 64)
    tell(17, `${reader.lowWaterMark.checkpoints.length} checkpoints`);
  for (const { messages } of flight.batches) {
    // It is full with the message that reaches the bound.
    const before = bytesOf(messages.slice(0, -1));
    if (before > batchBytes) tell(17, `a batch has ${before} bytes, and one more message`);
  }
  const { buckets, size, limit } = parked.keys;
  let keys = 0;
  for (const each of buckets.values()) keys += each.size;
  if (keys !== size || keys > limit) tell(17, `knows ${keys} blocked keys, counts ${size}, of at most ${limit}`);
}

/** Each message in memory stands in one place of the ledger, and is counted once. */
function entries({ ledger }: TransportRelay, tell: Tell): void {
  const { queues, flight, unwritten, held } = ledger;
  const waiting = new Set<OutboxMessage>();
  const out = new Set<OutboxMessage>();
  const wait = (first: OutboxMessage | undefined): void => {
    for (let next = first; next !== undefined; next = next.behind) {
      if (waiting.has(next)) return tell(17, `${next.seq} waits twice`);
      if (next.state !== 'waiting') tell(17, `${next.seq} waits, and is said to be ${next.state}`);
      waiting.add(next);
    }
  };
  for (const message of queues.ready) wait(message);
  for (const { messages } of flight.batches) {
    for (const message of messages) {
      if ((message.state !== 'out' && message.state !== 'leaseLost') || out.has(message)) continue;
      out.add(message); // what failed with its run may be out again before the rest of its batch is through
      wait(message.behind);
    }
  }
  if (out.size < flight.messages) tell(17, `${flight.messages} are in flight, and ${out.size} of them are out`);
  const decided = unwritten.all.size;
  if (held < waiting.size + out.size + decided)
    tell(
      17,
      `holds ${held} messages: ${waiting.size} wait, ${out.size} are out, of ${decided} is something to be written`,
    );
}

/** What was read and waits or is out. Parked ones come on top. A read may bring as much again, from behind. @param size that of each payload */
function bytesRead(
  { ledger: { queues, flight } }: TransportRelay,
  size: number,
  options: ResolvedOptions,
  tell: Tell,
): void {
  const held = new Set<OutboxMessage>();
  const add = (first: OutboxMessage | undefined): void => {
    for (let next = first; next !== undefined && !held.has(next); next = next.behind) held.add(next);
  };
  for (const message of queues.ready) add(message);
  for (const { messages } of flight.batches) for (const message of messages) add(message);
  const bytes = bytesOf([...held].filter(({ parkedId }) => parkedId === null));
  const most = 2 * Math.max(size, options.batchBytes * (options.batchesInFlight + 2));
  if (bytes > most) tell(17, `holds ${bytes} bytes of at most ${most}`);
}

const bytesOf = (messages: readonly OutboxMessage[]): number =>
  messages.reduce((sum, message) => sum + lengthOf(message), 0);
