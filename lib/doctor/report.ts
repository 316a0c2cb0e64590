import { printable } from '../observe/redact/printable.js';
import type { Evidence, Finding, Severity } from '../transports/diagnosis.js';
import type { OutageBudget } from './outage.js';

/** What `diagnose()` found. */
export interface DoctorReport {
  /** When it was asked, by this process's clock. */
  readonly at: Date;
  /** Milliseconds that it took. */
  readonly took: number;
  /** The worst of the findings. */
  readonly severity: Severity;
  /** The worst first. What is as it should be is in it, too. */
  readonly findings: readonly Finding[];
  /** For how long the broker may be down; `null`: the database did not answer. */
  readonly outage: OutageBudget | null;
}

const BY_SEVERITY: readonly Severity[] = ['error', 'warning', 'note', 'ok'];

export function reportOf(
  findings: readonly Finding[],
  rest: Pick<DoctorReport, 'at' | 'took' | 'outage'>,
): DoctorReport {
  const sorted = findings.map(shown).sort((a, b) => BY_SEVERITY.indexOf(a.severity) - BY_SEVERITY.indexOf(b.severity));
  return { ...rest, severity: sorted[0]?.severity ?? 'ok', findings: sorted };
}

/** Names of a database and of a broker may hold what a terminal obeys. */
function shown({ code, severity, text, evidence, consequence, fix }: Finding): Finding {
  const facts = Object.entries(evidence).map(([name, value]) => [
    printable(name),
    typeof value === 'string' ? printable(value) : value,
  ]);
  return {
    code,
    severity,
    text: printable(text),
    evidence: Object.fromEntries(facts) as Evidence,
    consequence,
    fix: fix === null ? null : printable(fix),
  };
}
