import type { OutboxTransport } from '../../../lib/index.js';

type Publish = OutboxTransport['publish'];
/** Microseconds by which the consumer may see a message later than it was published. */
const SEEN_WITHIN = 3_000_000;

/** What one transport published, and the database does not know yet; times in microseconds. */
export class Receipts {
  /** When its publish began, of each message that the broker took, and of each batch that is out. */
  private readonly due = new Map<unknown, number>();
  private latest = -Infinity;
  private told = -Infinity;

  async follow(since: number, publish: Publish, ...[batch, context]: Parameters<Publish>): ReturnType<Publish> {
    const known = new Set<number>();
    this.due.set(batch, (this.latest = since));
    const took = (index: number, ok: boolean): void => {
      if (ok && !known.has(index)) this.due.set(batch[index]!.id, since);
      known.add(index);
    };
    const report: typeof context.report = (index, result) => {
      took(index, result.ok);
      context.report(index, result);
    };
    try {
      const results = await publish(batch, { ...context, report });
      results?.forEach(({ ok }, index) => took(index, ok));
      return results;
    } finally {
      this.due.delete(batch);
    }
  }

  written(ids: readonly string[]): void {
    for (const id of ids) this.due.delete(id);
  }

  /** Before which time all that began has its receipt, if there is news of that. */
  news(now: number): number | undefined {
    const since = Math.min(now, ...this.due.values());
    return since > this.told && this.told < this.latest + SEEN_WITHIN ? (this.told = since) : undefined;
  }
}
