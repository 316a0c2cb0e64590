import type { Heads } from './low-water-mark.js';
import type { FetchResult, NumberSource } from '../../store/ready-store.js';

/**
 * Notices when numbers go back under a running relay: TRUNCATE, a sequence that is set back, a restore, a failover behind a
 * pooler that keeps the session. What was concluded from positions is void then: new rows stand below them.
 */
export class NumberWatch {
  source: NumberSource | undefined;
  /** Transaction ids up to which the last snapshot saw. */
  private xmax: bigint | undefined;
  /** Whether the last look found what only another server, or a restore, does. */
  isOfOther = false;

  /**
   * @param heads what was read before this fetch
   * @returns what shows that numbers may have gone back since the last look; `undefined`: nothing does
   */
  look({ snapshot, source }: Pick<FetchResult, 'snapshot' | 'source'>, heads: Heads): string | undefined {
    const before = this.xmax;
    this.isOfOther = false;
    if (snapshot !== undefined) {
      this.xmax = BigInt(snapshot.xmax);
      if (before !== undefined && this.xmax < before) {
        this.source = source;
        this.isOfOther = true;
        return `transaction ids went back from ${before} to ${this.xmax} (a failover, a restore)`;
      }
    }
    if (source === undefined) return undefined;
    const { last } = this.source ?? {};
    // Where not each read tells them, the last answer is older than the heads, and none of these was above what was given out.
    if (last !== undefined) this.source = { ...(this.source as NumberSource), last: highest(last, heads) };
    return this.compare(source);
  }

  /** Another session may be one with another server; only numbers are compared with what they were. */
  newSession(): void {
    this.xmax = undefined;
    if (this.source !== undefined) this.source = { server: undefined, table: undefined, last: this.source.last };
  }

  private compare(source: NumberSource): string | undefined {
    const before = this.source;
    this.source = source;
    if (before === undefined) return undefined;
    this.isOfOther = isAnother(before.server, source.server);
    if (this.isOfOther) return 'another server answers in the same session';
    if (before.last !== undefined && source.last !== undefined && source.last !== before.last) {
      if (BigInt(source.last) < BigInt(before.last))
        return `the numbers of outbox_ready went back from ${before.last} to ${source.last} (TRUNCATE, a restore, a failover)`;
    }
    if (isAnother(before.table, source.table))
      return 'outbox_ready was emptied or written anew (TRUNCATE, VACUUM FULL, ALTER TABLE)';
    return undefined;
  }
}

function highest(last: string, heads: Heads): string {
  let most = BigInt(last);
  for (const head of heads.values()) if (BigInt(head) > most) most = BigInt(head);
  return String(most);
}

const isAnother = (before: string | undefined, now: string | undefined): boolean =>
  before !== undefined && now !== undefined && before !== now;
