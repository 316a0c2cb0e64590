/** Costs that grow faster than the work. */
export const GROWTH = [
  {
    name: 'strict-commit-quadratic',
    breaks: 'PostgreSQL, strict: at COMMIT each statement of a transaction reads again all that its first one moved',
    file: 'lib/store/postgres/schema/strict.ts',
    from: 'if not exists (select from ${staged} s where s.tx = mine and s.n = new.n) then return null; end if;',
    to: 'if not exists (select from ${staged} s where s.tx = mine) then return null; end if;',
    contract: 'test/integration/relay/strict-growth.spec.ts',
  },
  {
    name: 'postgres-dedup-keys-from-the-front',
    breaks: 'PostgreSQL: every batch of removed dedup keys begins at the oldest one again, also past those that stay',
    file: 'lib/store/postgres/ops/clean.ts',
    from: 'this.lastLooked = looked < limit ? FRONT : [String(row[2]), String(row[3])];',
    to: 'this.lastLooked = FRONT;',
    contract: 'test/integration/operators/clean-growth.spec.ts',
  },
].map((mutant) => ({ chaos: false, ...mutant }));
