/** The candidate that `word` most likely meant: at most a third of its letters wrong, ignoring case; or `undefined`. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.floor(Math.max(3, word.length) / 3) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** The hint of an error: what was probably meant, else all that could be. */
export function meantHint(word: unknown, known: readonly string[]): string {
  const meant = typeof word === 'string' ? didYouMean(word, known) : undefined;
  return meant === undefined ? `Known are: ${known.join(', ')}.` : `Did you mean '${meant}'?`;
}

/** Insertions, deletions, substitutions and swapped neighbours (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  if (Math.max(a.length, b.length) > 100) return Infinity;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, at(beforeLast, j - 2) + 1);
      row.push(best);
    }
    [beforeLast, last] = [last, row];
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] as number;
}
