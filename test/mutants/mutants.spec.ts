import { readFileSync } from 'node:fs';

interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly from: string;
}

/** One that has lost its place would be convicted of nothing, and be missed only in the next long run. */
it('every mutant fits its place, once', async () => {
  const { MUTANTS } = (await import('./mutants.mjs' as string)) as { MUTANTS: readonly Mutant[] };
  const places = ({ file, from }: Mutant): number => readFileSync(file, 'utf8').split(from).length - 1;
  expect(MUTANTS.filter((mutant) => places(mutant) !== 1).map(({ name }) => name)).toEqual([]);
  expect(MUTANTS.length).toBeGreaterThan(40);
});
