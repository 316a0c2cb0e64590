const EXAMPLES = 5;

/** What must not happen, counted, with a few examples of each. */
export class Violations {
  readonly counts = new Map<string, number>();
  readonly examples: string[] = [];

  add(name: string, example: string): void {
    const count = this.of(name) + 1;
    this.counts.set(name, count);
    if (count <= EXAMPLES) this.examples.push(`${name}: ${example}`);
  }

  of(name: string): number {
    return this.counts.get(name) ?? 0;
  }
}
