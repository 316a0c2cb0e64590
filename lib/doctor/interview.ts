import { errorText } from '../observe/redact/error-text.js';
import { within, type Clock } from '../time/clock.js';
import { durationText } from '../time/duration.js';
import { found, type Finding } from '../transports/diagnosis.js';

/** Milliseconds for one question: the database ends its statements a little sooner. */
const PATIENCE = 4_000;

/** Asks one question after the other. One that fails or hangs is a finding, and the next one is asked. */
export class Interview {
  readonly findings: Finding[] = [];
  private readonly end: number;

  constructor(
    readonly clock: Clock,
    timeout: number,
  ) {
    this.end = clock.monotonic() + timeout;
  }

  get left(): number {
    return Math.max(0, this.end - this.clock.monotonic());
  }

  note(findings: readonly Finding[]): void {
    this.findings.push(...findings);
  }

  /**
   * @param what completes "… could not be asked"
   * @param fix what may help, beside what the error says
   * @returns `undefined`: there is no answer, and that is noted
   */
  async ask<T>(
    what: string,
    work: (signal: AbortSignal) => Promise<T>,
    fix = 'Give the login the right to ask, or ask again when the server has time.',
  ): Promise<T | undefined> {
    const answer = await this.answer(work);
    if ('value' in answer) return answer.value;
    this.note([
      found(
        'not-asked',
        'warning',
        { text: `${what} could not be asked: ${answer.why}`, evidence: { question: what, why: answer.why } },
        'Whether something is wrong there is not known.',
        fix,
      ),
    ]);
    return undefined;
  }

  async answer<T>(
    work: (signal: AbortSignal) => Promise<T>,
    patience = PATIENCE,
  ): Promise<{ readonly value: T } | { readonly why: string }> {
    const ms = Math.min(patience, this.left);
    if (ms === 0) return { why: 'The diagnosis ran out of time.' };
    const late = new AbortController();
    try {
      const asked = work(late.signal);
      if (await within(this.clock, ms, asked)) return { value: await asked };
      late.abort(new Error('The doctor waits no longer.'));
      return { why: `No answer within ${durationText(Math.round(ms))}.` };
    } catch (error) {
      return { why: errorText(error) };
    }
  }
}
