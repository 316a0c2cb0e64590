/** `ok`: asked, and as it should be. `note`: good to know. `warning`: a promise is weaker, or work is slower. `error`: something does not work. */
export type Severity = 'ok' | 'note' | 'warning' | 'error';

/** One thing that was looked at. */
export interface Finding {
  /** What was looked at, for programs. */
  readonly code: string;
  /** How bad it is. */
  readonly severity: Severity;
  /** One sentence. */
  readonly text: string;
  /** What the server said. Names of amounts end with their unit: `ageSeconds`, `freeBytes`. */
  readonly evidence: Evidence;
  /** What follows from it; `null`: nothing. */
  readonly consequence: string | null;
  /** A command, a statement or a setting; `null`: there is nothing to do. */
  readonly fix: string | null;
}
/** Facts by name. */
export type Evidence = Readonly<Record<string, string | number | boolean | Date | null>>;

type Rest = Pick<Finding, 'text' | 'evidence'>;

export const isOk = (code: string, text: string, evidence: Evidence = {}): Finding => ({
  code,
  severity: 'ok',
  text,
  evidence,
  consequence: null,
  fix: null,
});

/** What is not as it should be has a consequence, and something can be done. */
export const found = (
  code: string,
  severity: Exclude<Severity, 'ok'>,
  { text, evidence }: Rest,
  consequence: string | null,
  fix: string | null,
): Finding => ({ code, severity, text, evidence, consequence, fix });
