const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Somebody who asks again does not want to wait. Only signals that the application listens to already: a listener of ours
 * on another one would keep it from ending the process. The signal that started the stop is over: it does not count.
 * @returns a function that stops listening
 */
export function onSecondSignal(act: () => void): () => void {
  const heard = SIGNALS.filter((signal) => process.listenerCount(signal) > 0);
  for (const signal of heard) process.on(signal, act);
  return () => {
    for (const signal of heard) process.off(signal, act);
  };
}
