import { cpus } from 'node:os';

export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] as number;
export const round = (value: number, digits = 0): number => Number(value.toFixed(digits));

/** `NaN`, which JSON has as `null`: there are no values. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;
}

/** Wall milliseconds, and CPU microseconds of this process. */
export async function timed(work: () => Promise<unknown>): Promise<{ ms: number; cpu: number }> {
  const before = process.cpuUsage();
  const from = performance.now();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { ms: performance.now() - from, cpu: user + system };
}

const isSmoke = process.env['OUTBOX_BENCH_SMOKE'] === '1';
/** What no argument sets, and what it is in a run of seconds that only shows that the benchmark works. */
export const smoke = <T>(full: T, tiny: T): T => (isSmoke ? tiny : full);

/** The n-th argument of the benchmark, a whole number. */
export function argument(index: number, name: string, standard: number): number {
  const text = process.argv[2 + index];
  const value = text === undefined ? standard : Number(text.replaceAll('_', ''));
  if (Number.isInteger(value) && value >= 0) return value;
  throw new Error(`${name}: is ${text}; must be a whole number, like ${standard}`);
}

/** What was measured in each repeat, by name. Ratios are taken within a repeat and only then reduced to their median. */
export class Samples {
  /** @internal */ readonly values = new Map<string, number[]>();

  /** @param values printed as they come, so that a long run can be watched */
  add(values: Readonly<Record<string, number>>): void {
    for (const [name, value] of Object.entries(values)) {
      const known = this.values.get(name);
      if (known === undefined) this.values.set(name, [value]);
      else known.push(value);
    }
    console.log(
      Object.entries(values)
        .map(([name, value]) => `${name} ${significant(value)}`)
        .join(', '),
    );
  }

  median(name: string): number {
    return significant(median(this.values.get(name) ?? [NaN]));
  }

  medians(): Record<string, number> {
    return Object.fromEntries([...this.values.keys()].map((name) => [name, this.median(name)]));
  }

  /** Lowest and highest, which says how much a median is worth. */
  range(name: string): [number, number] {
    const values = this.values.get(name) ?? [NaN];
    return [significant(Math.min(...values)), significant(Math.max(...values))];
  }
}

/** Whole numbers from 1,000 on, three digits behind the point below. */
const significant = (value: number): number => round(value, Math.abs(value) >= 1_000 ? 0 : 3);

export const machine = (): string => `${cpus().length} × ${cpus()[0]?.model ?? 'CPU'}, Node ${process.version}`;
