/**
 * Microseconds that do not count: code is compiled, and the heap takes its size. Measured over 185 lives on a full machine:
 * 135, 144, 146, 149, 151, 151, 149, 152 MB in their half minutes.
 */
const WARM_UP = 120e6;
/** Fewer samples than these say nothing. */
const ENOUGH = 250;

/**
 * What a relay takes by its age, all lives together: under faults few live for three minutes, and within one of
 * them a jump (leases come, a process stands still) looks like growth. A relay that lives for an hour is in `bench load`.
 */
export class Growth {
  private readonly minutes: number[] = [];
  private readonly values: number[] = [];

  /** @param age microseconds: of its life, or of its work */
  sample(age: number, value: number): void {
    if (age < WARM_UP) return;
    this.minutes.push(age / 60e6);
    this.values.push(value);
  }

  /** A minute; `undefined` when too little is known. */
  get slope(): number | undefined {
    const { minutes, values } = this;
    const [meanMinutes, meanValue] = [mean(minutes), mean(values)];
    let [together, spread] = [0, 0];
    minutes.forEach((minute, n) => {
      together += (minute - meanMinutes) * ((values[n] as number) - meanValue);
      spread += (minute - meanMinutes) ** 2;
    });
    return minutes.length < ENOUGH || spread === 0 ? undefined : Math.round((together / spread) * 100) / 100;
  }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
