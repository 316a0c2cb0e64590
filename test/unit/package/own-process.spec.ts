import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compiledSources, SOURCES } from '../../support/own-process.js';

describe('the code of a process that a test starts', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'outbox-sources-'));
    for (const folder of SOURCES) mkdirSync(join(root, folder), { recursive: true });
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('is that of the sources as they are now, with the numbers of their lines', () => {
    const compiled = (): string => readFileSync(join(compiledSources(root), 'lib', 'a.js'), 'utf8');
    writeFileSync(join(root, 'lib', 'a.ts'), `export const first: string = 'one';\nexport const second = 2;\n`);
    expect(compiled()).toMatch(/^\/\* \w{64} \*\/export const first = 'one';\nexport const second = 2;\n/);
    expect(compiled()).toContain("'one'");
    writeFileSync(join(root, 'lib', 'a.ts'), `export const first: string = 'two';\n`);
    expect(compiled()).toContain("'two'");
  });
});
