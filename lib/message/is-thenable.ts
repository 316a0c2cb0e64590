/** What calls of the application's functions return although their types do not say so. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function';
}

/** At once, where the value is there; else when it is. */
export const andThen = (value: unknown, next: (value: unknown) => unknown): unknown =>
  isThenable(value) ? Promise.resolve(value).then(next) : next(value);
