import { cpus } from 'node:os';

export const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] as number;
export const round = (value: number, digits = 0): number => Number(value.toFixed(digits));

export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] as number;
}

/** Wall milliseconds, and CPU microseconds of this process. */
export async function timed(work: () => Promise<unknown>): Promise<{ ms: number; cpu: number }> {
  const before = process.cpuUsage();
  const from = performance.now();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { ms: performance.now() - from, cpu: user + system };
}

export const machine = (): string => `${cpus().length} × ${cpus()[0]?.model ?? 'CPU'}, Node ${process.version}`;
/** The last line of every benchmark. */
export const report = (result: { bench: string } & Record<string, unknown>): void => console.log(JSON.stringify(result));
