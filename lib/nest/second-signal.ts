const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const waiting = new Set<() => void>();

function hurry(): void {
  for (const act of waiting) act();
}

/**
 * Somebody who asks again does not want to wait. Only signals that the application listens to already: a listener of ours
 * on another one would keep it from ending the process. The signal that started the stop is over: it does not count.
 * One listener for all outboxes: Node warns of many.
 * @returns a function that stops listening
 */
export function onSecondSignal(act: () => void): () => void {
  for (const signal of SIGNALS) {
    process.off(signal, hurry);
    if (process.listenerCount(signal) > 0) process.on(signal, hurry);
  }
  waiting.add(act);
  return () => {
    waiting.delete(act);
    if (waiting.size === 0) for (const signal of SIGNALS) process.off(signal, hurry);
  };
}
