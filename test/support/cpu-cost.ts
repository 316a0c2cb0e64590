/** CPU milliseconds of one call. The least of three: collections of garbage are in it, and come when they will. */
export function cpuCost(work: () => void): number {
  work(); // compiles it, and may collect what others left
  return Math.min(sample(work), sample(work), sample(work));
}

/** As many calls as take 50 ms together: a shorter time is told by chance, and a part of it (user, system) may even be 0. */
function sample(work: () => void): number {
  const before = process.cpuUsage();
  for (let calls = 1; ; calls += 1) {
    work();
    const { user, system } = process.cpuUsage(before);
    const spent = (user + system) / 1000;
    if (spent >= 50) return spent / calls;
  }
}

/** How many times as long the longer of two texts is. */
const LONGER = 16;
/** In between: what costs as much as a text is long, and what costs as much as the square of that, which is 256. */
export const AS_LONG_AS_IT_IS = LONGER * 4;

/**
 * How many times as much the work costs for a text of so many characters as for a sixteenth of it. However fast the machine is, it says how
 * the work grows.
 */
export function costGrowth(work: (text: string) => void, textOf: (size: number) => string, size: number): number {
  const [long, short] = [textOf(size), textOf(size / LONGER)];
  return cpuCost(() => work(long)) / cpuCost(() => work(short));
}
