/** Which tables an outbox has: the same for two data layers of one database. */
export interface Tables {
  /** What the application has of its data layer itself, where its options do not say which server it reaches. */
  readonly server: string | object;
  readonly names: string;
}

export function areSame(one: Tables, other: Tables): boolean {
  return one.server === other.server && one.names === other.names;
}
