import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { planInit, type Change } from '../../../lib/cli/init/plan.js';
import { findProject } from '../../../lib/cli/init/project.js';
import { Sources } from '../../../lib/cli/init/sources.js';
import { TRANSPORTS, type TransportText } from '../../../lib/cli/init/transport.js';
import { loadTypeScript } from '../../../lib/cli/init/typescript.js';
import { writeAll } from '../../../lib/cli/init/write.js';
import { FIXTURES } from '../../cli/support/nest-fixtures.js';

describe('planInit', () => {
  let folder: string;
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const make = (files: Readonly<Record<string, string>>): void => {
    folder = mkdtempSync(join(tmpdir(), 'outbox-plan-'));
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
  };
  const plan = (args: readonly string[] = []): readonly Change[] => {
    const ts = loadTypeScript(process.cwd());
    const project = findProject(ts, folder, args[1] === undefined ? {} : { project: args[1] });
    return planInit(new Sources(ts, project), TRANSPORTS['in-process'] as TransportText, true).changes;
  };

  it.each(Object.entries(FIXTURES))('%s: changes what is to be changed, and nothing twice', (_, fixture) => {
    make(fixture.files);
    const changes = plan(fixture.args);
    const withMigrations = changes.filter(({ after }) => after.includes('...outboxMigrations()'));
    expect(withMigrations.map(({ path }) => relative(folder, path)).sort()).toEqual([...fixture.changed].sort());
    writeAll(folder, changes);
    expect(plan(fixture.args)).toEqual([]);
  });
});
