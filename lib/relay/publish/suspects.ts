/** Times that a message failed alone and another one got through after it; of these, times that it may have broken the connection. */
interface Strikes {
  readonly alone: number;
  readonly broke: number;
}

/** Messages that failed alone while others got through. */
export class Suspects {
  /** @internal */ readonly strikes = new Map<string, Strikes>();

  get size(): number {
    return this.strikes.size;
  }

  /** @param broke whether it may have broken the connection */
  strike(id: string, broke: boolean): void {
    if (this.strikes.size >= MOST) this.strikes.clear();
    const before = this.strikes.get(id) ?? { alone: 0, broke: 0 };
    this.strikes.set(id, { alone: before.alone + 1, broke: before.broke + Number(broke) });
  }

  acquit(id: string): void {
    this.strikes.delete(id);
  }

  /** Often enough that it is no chance. */
  failsAlone(id: string): boolean {
    return (this.strikes.get(id)?.alone ?? 0) >= ENOUGH;
  }

  /** So is this. */
  breaks(id: string): boolean {
    return (this.strikes.get(id)?.broke ?? 0) >= ENOUGH;
  }
}

const ENOUGH = 3;
const MOST = 1_000;
