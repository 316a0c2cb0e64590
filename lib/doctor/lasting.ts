/** For people: in the largest unit of which there are two or more, such as `19 hours`. */
export function lastingText(seconds: number): string {
  for (const [unit, size] of [
    ['days', 86_400],
    ['hours', 3_600],
    ['minutes', 60],
  ] as const)
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.floor(seconds)} seconds`;
}
