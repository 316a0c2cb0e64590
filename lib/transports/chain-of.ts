const LONGEST = 5;

/** An error and what caused it, the innermost last: clients wrap theirs. */
export function chainOf(error: unknown): object[] {
  const chain: object[] = [];
  let current = error;
  while (chain.length < LONGEST && typeof current === 'object' && current !== null) {
    chain.push(current);
    current = (current as { cause?: unknown }).cause;
  }
  return chain;
}
