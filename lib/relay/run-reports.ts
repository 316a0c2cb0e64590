import type { RunReport } from './contracts.js';

export const NOTHING: RunReport = { published: 0, retried: 0, dead: 0 };

export function sum(a: RunReport, b: RunReport): RunReport {
  return { published: a.published + b.published, retried: a.retried + b.retried, dead: a.dead + b.dead };
}

export function difference(now: RunReport, before: RunReport): RunReport {
  const { published, retried, dead } = now;
  return { published: published - before.published, retried: retried - before.retried, dead: dead - before.dead };
}

/** @throws the first failure */
export function sumOf(passes: readonly PromiseSettledResult<RunReport>[]): RunReport {
  return passes.map(valueOf).reduce(sum, NOTHING);
}

function valueOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}
