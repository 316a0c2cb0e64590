/**
 * CPU milliseconds of one call, by as many calls as take 50 ms together: a shorter time is told by chance, and a part of
 * it (user, system) may even be 0.
 */
export function cpuCost(work: () => void): number {
  work(); // compiles it, and may collect what others left
  const before = process.cpuUsage();
  for (let calls = 1; ; calls += 1) {
    work();
    const { user, system } = process.cpuUsage(before);
    const spent = (user + system) / 1000;
    if (spent >= 50) return spent / calls;
  }
}
