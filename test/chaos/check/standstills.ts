import { takeoverWithin, type Timing } from './bounds.js';
import { Column } from './columns.js';
import type { FaultLog } from './faults.js';
import type { Lives } from './lives.js';

/** Microseconds beyond two leases: who looks every two seconds saw it so much later, and told it so much later. */
const GRACE = 5_000_000;
/** Of the look at the table, an answer of health that counts: before it, and after it. */
const BEFORE = 6_000_000;
const AFTER = 4_000_000;
/** True of any run with messages that nobody takes, and no reason why ready rows should not go. */
const OF_THE_DEAD: ReadonlySet<string> = new Set(['dead_letters', 'keys_blocked', 'failing_often']);

interface Look {
  readonly time: number;
  readonly stands: readonly (readonly [transport: number, bucket: number, since: number])[];
}

/** What a relay's health said, and when. */
class Answers {
  readonly time = new Column(Float64Array);
  readonly explains = new Column(Uint8Array);
}

/** A watchdog: ready rows stand, nothing has been wrong for a while, and nobody says why. */
export class Standstills {
  private readonly looks: Look[] = [];
  private readonly answers = new Map<number, Answers>();

  answered(run: number, time: number, status: string, codes: readonly string[]): void {
    let answers = this.answers.get(run);
    if (answers === undefined) this.answers.set(run, (answers = new Answers()));
    answers.time.push(time);
    answers.explains.push(explains(status, codes) ? 1 : 0);
  }

  looked(time: number, stands: Look['stands']): void {
    if (stands.length > 0) this.looks.push({ time, stands });
  }

  judge(faults: FaultLog, lives: Lives, timing: Timing): { explained: number; unexplained: string[] } {
    const longest = 2 * timing.lease * 1_000 + GRACE;
    const explained = new Set<string>();
    const unexplained = new Set<string>();
    for (const { time, stands } of this.looks) {
      if (time - faults.quietSince(time, () => 0) < takeoverWithin(timing)) continue;
      for (const [transport, bucket, since] of stands) {
        const there = new Set(lives.upAt(since));
        const relays = lives.upAt(time);
        // Who saw it from its beginning knows for how long it stands.
        if (time - since <= longest || !relays.some((run) => there.has(run))) continue;
        const name = `bucket ${transport}/${bucket} from ${since}`;
        (relays.some((run) => this.saysWhy(run, time)) ? explained : unexplained).add(name);
      }
    }
    return { explained: explained.size, unexplained: [...unexplained] };
  }

  private saysWhy(run: number, at: number): boolean {
    const { time, explains: why } = this.answers.get(run) ?? new Answers();
    for (let i = time.length - 1; i >= 0 && time.get(i) >= at - BEFORE; i -= 1)
      if (time.get(i) <= at + AFTER && why.get(i) === 1) return true;
    return false;
  }
}

function explains(status: string, codes: readonly string[]): boolean {
  return status === 'down' || codes.some((code) => !OF_THE_DEAD.has(code));
}
