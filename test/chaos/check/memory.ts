/** Microseconds of a relay's life that do not count: code is compiled and the heap takes its size; 1.5 minutes on a full machine. */
const WARM_UP = 90e6;
/** Fewer samples than these say nothing. */
const ENOUGH = 500;

/** Memory of the relays as they grow older. Few of them live long under faults: each is compared with itself, all count. */
export class MemoryGrowth {
  private readonly born = new Map<number, number>();
  private readonly lives = new Map<number, { minutes: number[]; megabytes: number[] }>();

  ready(run: number, time: number): void {
    this.born.set(run, time);
  }

  sample(run: number, time: number, megabytes: number): void {
    const age = time - (this.born.get(run) ?? Infinity);
    if (age < WARM_UP) return;
    const life = this.lives.get(run) ?? { minutes: [], megabytes: [] };
    this.lives.set(run, life);
    life.minutes.push(age / 60e6);
    life.megabytes.push(megabytes);
  }

  /** Megabytes a minute; `undefined` when too little is known. */
  get slope(): number | undefined {
    let [together, spread, samples] = [0, 0, 0];
    for (const { minutes, megabytes } of this.lives.values()) {
      const [meanMinutes, meanMegabytes] = [mean(minutes), mean(megabytes)];
      samples += minutes.length;
      minutes.forEach((minute, n) => {
        together += (minute - meanMinutes) * ((megabytes[n] as number) - meanMegabytes);
        spread += (minute - meanMinutes) ** 2;
      });
    }
    return samples < ENOUGH || spread === 0 ? undefined : Math.round((together / spread) * 100) / 100;
  }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
