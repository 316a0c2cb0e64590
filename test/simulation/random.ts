/** Numbers that look random and are the same for the same seed (mulberry32). */
export class Random {
  constructor(private state: number) {}

  /** A stream of its own for each name: what one part draws does not move what another gets. */
  static of(seed: number, name: string): Random {
    let hash = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b);
    for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    return new Random(hash ^ (hash >>> 15));
  }

  /** 0 ≤ x < 1. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }
  chance(probability: number): boolean {
    return this.next() < probability;
  }
  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }
  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1));
  }
  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)] as T;
  }
}
