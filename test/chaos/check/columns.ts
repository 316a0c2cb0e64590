type Typed = Float64Array | Int32Array | Int16Array | Uint8Array;
type TypedConstructor<T extends Typed> = new (length: number) => T;

/** A list of numbers that grows; millions of them take what their type takes. */
export class Column<T extends Typed = Typed> {
  length = 0;
  private values: T;

  constructor(
    private readonly type: TypedConstructor<T>,
    private readonly initial = 0,
  ) {
    this.values = this.allocate(1_024);
  }

  get(index: number): number {
    return index < this.length ? (this.values[index] as number) : this.initial;
  }

  set(index: number, value: number): void {
    if (index >= this.values.length) {
      const larger = this.allocate(Math.max(index + 1, this.values.length * 2));
      larger.set(this.values as never);
      this.values = larger;
    }
    this.values[index] = value;
    this.length = Math.max(this.length, index + 1);
  }

  push(value: number): number {
    this.set(this.length, value);
    return this.length - 1;
  }

  private allocate(length: number): T {
    const values = new this.type(length);
    if (this.initial !== 0) values.fill(this.initial);
    return values;
  }
}
