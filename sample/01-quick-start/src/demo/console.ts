import type { Answer } from './customers.js';
import { isGood, type Verdict } from './verdict.js';

const started = performance.now();
export const seconds = (): string => `${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s`;

export function say(text: string): void {
  console.log(`${seconds()}  ${text}`);
}

export function printVerdict(verdict: Verdict, answers: readonly Answer[]): void {
  const { committed, rolledBack, published, duplicated, lost, invented, outOfOrder, misanswered } = verdict;
  const row = (name: string, value: number, note = ''): void =>
    console.log(`  ${name.padEnd(13)}${String(value).padStart(7)}${note && `   ${note}`}`);
  const named = (orders: readonly string[]): string => orders.slice(0, 10).join(', ');
  console.log();
  row('committed', committed);
  row('rolled back', rolledBack, reasons(answers));
  row('published', published);
  row('duplicated', duplicated, 'at least once: a consumer knows them by the message id');
  row('lost', lost.length, named(lost));
  row('invented', invented.length, named(invented));
  row('out of order', outOfOrder.length, named(outOfOrder));
  if (misanswered.length > 0) row('misanswered', misanswered.length, named(misanswered));
  console.log(`\n  POST /orders  ${latency(answers)}`);
  console.log(isGood(verdict) ? `  OK after ${seconds().trim()}` : '  FAILED');
}

function reasons(answers: readonly Answer[]): string {
  const counts = new Map<string, number>();
  for (const { status, reason } of answers) if (status !== 202) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts].map(([reason, count]) => `${count} ${reason}`).join(', ');
}

function latency(answers: readonly Answer[]): string {
  const sorted = answers.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
  const at = (part: number): string =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0).toFixed(1);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
}
