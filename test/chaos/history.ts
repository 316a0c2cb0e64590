import { createReadStream, createWriteStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import { finished, pipeline } from 'node:stream/promises';
import { pages, type DatabaseServer } from './servers/database.js';
import { Part } from './part.js';
import { clockSince } from './settings.js';

/**
 * One JSON array per line; the first element says what it is. Times are microseconds since the start of the harness, by
 * one clock for all processes. Transports are 0 and 1. First the commits, last the sightings.
 *
 *   ["meta", {…}]                                      what ran
 *   ["run", run, slot, time]                           a relay was started
 *   ["ready", run, time, ms of CPU]                    it was up
 *   ["crash", run, time, code, signal, wasReady]       it ended, and nobody had told it to
 *   ["fault", id, kind, runs, time], ["heal", id, time]   runs: the relays that it touches, or "all"
 *   ["lossy", from, to]                                a failover: the replica had all that had committed at the one time, and at the
 *                                                      other it was the primary; what committed between the two may be gone
 *   ["taken", time, transport, [uid, …]]               what was in `outbox_ready` when it was emptied
 *   ["drain", time], ["drained", time]                 between these nothing is written any more
 *   ["calm", from, to]                                 no fault was on, and none had been for a while
 *   ["c", writer, n, began, [[key, transports, kind], …]]   a committed transaction; transports: 1, 2 or 3 for both
 *   ["q", writer, [n, time, n, time, …]]               when COMMIT was called, as far as the writer lived to tell
 *   ["e", writer, [n, time, n, time, …]]               when it returned, likewise
 *   ["b", writer, time, error]                         a business transaction failed, and did not mean to
 *   ["a", writer, n, time]                             one met another that holds its keys, and ran again
 *   ["o", run, owner]                                  the name under which a relay holds leases
 *   ["l", time, transport, bucket, owner or null, epoch]   a lease changed hands, as the database logged it
 *   ["p", run, transport, [bucket, time, …]]           publishes began; the first of each bucket in 50 ms
 *   ["r", run, transport, time, since]                 all that it began to publish before then has its receipt, in the database, too
 *   ["d", run, time, transport, uid, error]            the dead-letter hook was called
 *   ["m", run, time, MB, descriptors, longest event-loop delay in ms]
 *   ["h", run, time, status, [reason, …]]              what its health answered
 *   ["w", time, [[transport, bucket, since], …]]       buckets whose first ready row has been the same for a lease and more
 *   ["n", time, slot, connections to the database]
 *   ["k", time, slot, connections to the broker]
 *   ["held", leases]                                   that somebody has when all relays have stopped
 *   ["leak", where, which]                             a secret of the workload in what a process said, or in a stored error
 *   ["searched", files, errors]                        for such
 *   ["left", where, state, transport, uid]             what stood in the tables at the end
 *   ["s", transport, time, run, redelivered, [uid, …]] deliveries, in the order in which the broker gave them; the time
 *                                                      is when Kafka appended the first, or when RabbitMQ delivered it
 *   ["f", transport, [uid, …]]                         effects of deliveries, as many as there are in the database at the end
 *   ["x", transport, run, head]                        a delivery with other bytes than were enqueued
 *
 * uid = (writer · 2^20 + n) · 16 + index in the transaction.
 */
export class History {
  readonly now: () => number;
  private readonly part: Part;

  constructor(
    readonly folder: string,
    origin: string,
  ) {
    this.now = clockSince(origin);
    this.part = new Part(join(folder, 'main.jsonl'));
  }

  add(line: readonly unknown[]): void {
    this.part.add(line);
  }

  /** In one file: the truth, the harness's own part, those of the processes, the sightings last. */
  async assemble(database: DatabaseServer, target: string): Promise<void> {
    this.part.close();
    const out = createWriteStream(target).setMaxListeners(0);
    const parts = readdirSync(this.folder).filter((name) => name.endsWith('.jsonl'));
    const append = (name: string): Promise<void> =>
      pipeline(createReadStream(join(this.folder, name)), out, { end: false });
    for await (const page of pages(database)) {
      const lines = page.map((row) => JSON.stringify(commitLine(row as string[])));
      if (!out.write(`${lines.join('\n')}\n`)) await once(out, 'drain');
    }
    await append('main.jsonl');
    for (const name of parts.filter((each) => each !== 'main.jsonl' && each !== 'sightings.jsonl')) await append(name);
    if (parts.includes('sightings.jsonl')) await append('sightings.jsonl');
    out.end();
    await finished(out);
  }
}

function commitLine([writer, n, began, messages]: readonly string[]): unknown[] {
  const rows = (messages as string).split(';').map((message) => message.split(',').map(Number));
  return ['c', Number(writer), Number(n), Number(began), rows];
}
