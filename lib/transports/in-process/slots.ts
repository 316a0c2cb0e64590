/** Of one handler: calls that somebody waits for now, and how many these may be. */
interface Share {
  taken: number;
  limit: number;
}

/**
 * How many calls of one handler may be waited for at once. There is no bound until one hangs; then it is half of `concurrency`,
 * and each call that ends in time allows one more: a handler that always hangs leaves the other slots to the others, and one
 * message that hangs costs its neighbours nothing that lasts.
 */
export class HandlerSlots {
  private readonly shares = new Map<string, Share>();

  /** @param concurrency messages of one batch that are handled at once */
  constructor(readonly concurrency: number) {}

  /** @returns whether there was one */
  take(id: string): boolean {
    const share = this.shares.get(id) ?? { taken: 0, limit: Infinity };
    if (share.taken >= share.limit) return false;
    share.taken += 1;
    this.shares.set(id, share);
    return true;
  }

  giveBack(id: string, isHanging: boolean): void {
    const share = this.shares.get(id) as Share;
    share.taken -= 1;
    if (isHanging) share.limit = Math.max(1, this.concurrency >> 1);
    else share.limit += 1;
    if (share.limit > this.concurrency * UNBOUND) share.limit = Infinity;
    if (share.taken === 0 && share.limit === Infinity) this.shares.delete(id);
  }
}

/** Times `concurrency`, from which on there is no bound again. */
const UNBOUND = 10;
