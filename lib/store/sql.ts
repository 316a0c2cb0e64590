/** SQL that stays structured until the executor renders it: text between the values, and the values. */
export interface Sql {
  readonly statement: Statement;
  readonly values: readonly unknown[];
}

/**
 * A statement, built once. `?` in the text is a value; identifiers are quoted and put in by whoever builds it.
 * Named statements are prepared once per connection by executors that can.
 */
export class Statement {
  readonly strings: readonly string[];
  /** `$1, $2, …` for PostgreSQL. */
  readonly positional: string;
  /** `?` for MySQL. */
  readonly questionMarks: string;

  constructor(
    readonly name: string | undefined,
    text: string,
  ) {
    this.strings = text.split('?');
    this.questionMarks = text;
    this.positional = this.strings.reduce((sql, part, i) => `${sql}$${i}${part}`);
  }

  bind(...values: readonly unknown[]): Sql {
    return this.bindAll(values);
  }

  /** For lists of any length: each argument of a call takes room on the stack. */
  bindAll(values: readonly unknown[]): Sql {
    if (values.length !== this.strings.length - 1) {
      throw new TypeError(`${this.name ?? 'statement'} takes ${this.strings.length - 1} values, got ${values.length}`);
    }
    return { statement: this, values };
  }
}

export const statement = (name: string | undefined, text: string): Statement => new Statement(name, text);
