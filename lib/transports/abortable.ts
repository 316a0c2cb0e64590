/** The promise, or the reason of the signal as soon as that is aborted. `undo` gets what the promise gives after that. */
export function abortable<T>(
  promise: Promise<T>,
  signal: AbortSignal,
  undo: (late: T) => void = () => undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let keep: (value: T) => void = resolve;
    const onAbort = (): void => {
      keep = undo;
      reject(signal.reason as Error);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.finally(() => signal.removeEventListener('abort', onAbort)).then((value) => keep(value), reject);
  });
}
