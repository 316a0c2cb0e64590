export interface ObservableLike {
  pipe(...operators: never[]): unknown;
  subscribe(...observer: unknown[]): unknown;
}

/** By its shape: a process may hold several copies of rxjs. */
export function isObservable(value: unknown): value is ObservableLike {
  const { subscribe, pipe } = (value ?? {}) as Partial<ObservableLike>;
  return typeof subscribe === 'function' && typeof pipe === 'function';
}
