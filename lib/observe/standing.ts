import { compareSeq } from '../outbox-message.js';
import type { Head, TransportStats } from '../store/admin-store.js';

/** The first ready message of a bucket, and since when it has been that. */
export interface Stand extends Head {
  /** Milliseconds; its age says for how long it was ready, this for how long it was seen there, up to the last look at its bucket. */
  readonly standsFor: number;
}
export interface Standstill {
  /** Milliseconds for which no bucket of this transport got ahead, while there was something in one. */
  readonly standsFor: number;
  readonly stands: readonly Stand[];
}

interface Seen extends Head {
  readonly since: number;
  /** The last look at its bucket: with many buckets a look takes in some of them. */
  readonly seenAt: number;
}
interface Transport {
  readonly first: Map<number, Seen>;
  /** Where the first message of each bucket stood when there was one: what is before is gone, or became visible late. */
  readonly reached: Map<number, string>;
  movedAt: number;
}

/** Whether what is ready gets ahead: remembers what was first in each bucket, from one look to the next. */
export class Standing {
  private readonly transports = new Map<number, Transport>();

  /** Of these buckets nothing else is ready than what the look found. */
  looked(stats: readonly Pick<TransportStats, 'transport' | 'heads'>[], buckets: readonly number[], now: number): void {
    for (const { transport, heads } of stats) {
      const seen = this.of(transport);
      const found = new Map(heads.map((head) => [head.bucket, head]));
      for (const bucket of buckets) this.saw(seen, bucket, found.get(bucket), now);
    }
  }

  private saw(seen: Transport, bucket: number, head: Head | undefined, now: number): void {
    const before = seen.first.get(bucket);
    if (head === undefined) seen.first.delete(bucket);
    else {
      // What became visible in front of it late has not moved it.
      const stands = before !== undefined && (before.id === head.id || compareSeq(head.seq, before.seq) < 0);
      seen.first.set(bucket, { ...head, since: stands ? before.since : now, seenAt: now });
      seen.reached.set(bucket, (BigInt(head.seq) - 1n).toString());
      if (stands) return;
    }
    if (before !== undefined) seen.movedAt = now;
  }

  /** Where the next look begins, exclusive: at what is first, as long as that is there. */
  after(transport: number, bucket: number, goneUpTo: string): string {
    const { first, reached } = this.of(transport);
    const from = reached.get(bucket) ?? '0';
    return first.has(bucket) || compareSeq(from, goneUpTo) >= 0 ? from : goneUpTo;
  }

  at(transport: number, now: number): Standstill {
    const { first, movedAt } = this.of(transport);
    const stands = [...first.values()].map(({ since, seenAt, ...head }) => ({ ...head, standsFor: seenAt - since }));
    const longest = Math.max(0, ...stands.map(({ standsFor }) => standsFor));
    return { stands, standsFor: Math.min(longest, now - movedAt) };
  }

  private of(transport: number): Transport {
    let found = this.transports.get(transport);
    if (found === undefined) {
      found = { first: new Map(), reached: new Map(), movedAt: -Infinity };
      this.transports.set(transport, found);
    }
    return found;
  }
}
