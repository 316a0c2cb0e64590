/** What one message went through, as everybody outside the relay saw it. */
export interface Fate {
  readonly id: string;
  readonly key: string | null;
  readonly name: string;
  /** Of its transaction. */
  readonly began: number;
  /** Place within its transaction. */
  readonly index: number;
  readonly transaction: number;
  committed: number | undefined;
  rolledBack: boolean;
  /** Times at which the broker took it. */
  readonly taken: number[];
  /** Failures that were its own. */
  refused: number;
  dead: boolean;
  /** Of its refusals those before its last requeue: they do not count any more. */
  forgiven: number;
  /** By an operator, before it was published as far as anybody knew. */
  removed: boolean;
  /** Was not to be published at once: it holds nobody, and nobody it. */
  scheduled: boolean;
}

/** The facts of one history, written down as they happen and judged at its end. */
export class History {
  readonly fates = new Map<string, Fate>();
  /** Sightings at the broker, in its order. */
  readonly sightings: Fate[] = [];
  readonly faults = new Map<string, number>();
  /** The last things that happened, for whoever has to understand a violation. */
  readonly trace: string[] = [];
  readonly ghosts: string[] = [];

  constructor(
    readonly now: () => number,
    readonly traced = false,
  ) {}

  tell(text: string): void {
    if (this.traced) this.trace.push(`${this.now().toFixed(1).padStart(9)}  ${text}`);
  }
  fault(kind: string, about = ''): void {
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
    this.tell(`fault: ${kind} ${about}`);
  }
  taken(id: string, by: string): void {
    const fate = this.fates.get(id);
    this.tell(`${by}: broker takes ${fate?.name ?? id}`);
    if (fate === undefined) {
      this.ghosts.push(id);
      return;
    }
    fate.taken.push(this.now());
    this.sightings.push(fate);
  }
}
