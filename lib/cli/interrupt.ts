/**
 * Ctrl-C. Outside of `holding` the process ends at once. Inside, the first one is kept until the work looks at `isAsked`, and the
 * second one ends the process.
 */
export class Interrupt {
  private readonly asked = new AbortController();
  readonly signal: AbortSignal = this.asked.signal;
  private held = 0;

  constructor(
    private readonly end: () => void,
    private readonly say: (line: string) => void,
  ) {}

  get isAsked(): boolean {
    return this.signal.aborted;
  }

  /** Called for each signal. */
  ask(): void {
    if (this.held === 0 || this.isAsked) return this.end();
    this.asked.abort();
    this.say('Interrupted: it stops after this chunk. Press Ctrl-C again to end now.');
  }

  /** Runs work that ends in an orderly way when `isAsked`. */
  async holding<T>(work: () => Promise<T>): Promise<T> {
    this.held += 1;
    try {
      return await work();
    } finally {
      this.held -= 1;
    }
  }
}
