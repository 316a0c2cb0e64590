/** Milliseconds: no timer of the process or of a driver takes much more than 24 days. */
const LONGEST_WAIT = 86_400_000;

/** Whether a command can wait for so long. */
export const isWait = (ms: number): boolean => ms >= 1 && ms <= LONGEST_WAIT;
