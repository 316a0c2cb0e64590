/** What `init` writes into an application. */
export const INIT = [
  {
    name: 'init-writes-half',
    breaks: 'files that took their place stay when a later one cannot',
    file: 'lib/cli/init/write.ts',
    from: 'for (const { path, before } of done)',
    to: 'for (const { path, before } of done.slice(1))',
    contract: 'test/unit/cli/write-all.spec.ts',
  },
  {
    name: 'init-overwrites-another-change',
    breaks: 'what somebody wrote while it read is lost',
    file: 'lib/cli/init/write.ts',
    from: "if (readFileSync(path, 'utf8') !== before)",
    to: "if (readFileSync(path, 'utf8') === undefined)",
    contract: 'test/unit/cli/write-all.spec.ts',
  },
  {
    name: 'init-adds-migrations-twice',
    breaks: 'a second run adds the migrations again',
    file: 'lib/cli/init/plan.ts',
    from: 'place.list.elements.some((one) => isMigrations(sources, one))',
    to: 'place.list.elements.some((one) => isMigrations(sources, one)) && files.length < 0',
    contract: 'test/unit/cli/plan-init.spec.ts',
  },
].map((mutant) => ({ chaos: false, simulation: false, ...mutant }));
