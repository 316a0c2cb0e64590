/** What `init` writes into an application. */
export const INIT = [
  {
    name: 'init-writes-half',
    breaks: 'files that are written stay when a later one cannot be written',
    file: 'lib/cli/init/edits.ts',
    from: 'for (const { path, after } of changes) writeFileSync(`${path}.init.tmp`, after);',
    to: 'for (const { path, after } of changes) writeFileSync(path, after);',
  },
  {
    name: 'init-guesses-the-data-source',
    breaks: 'of two databases both get the tables',
    file: 'lib/cli/init/application.ts',
    from: 'unnamed.length > 2 || ofFiles.length !== 1',
    to: 'unnamed.length > 2',
  },
  {
    name: 'init-adds-migrations-twice',
    breaks: 'a second run adds the migrations again',
    file: 'lib/cli/init/additions.ts',
    from: "if (!app.imports('outboxMigrations'))",
    to: "if (!app.imports('OutboxMigrations'))",
  },
].map((mutant) => ({ chaos: false, simulation: false, contract: 'test/unit/cli/plan-init.spec.ts', ...mutant }));
