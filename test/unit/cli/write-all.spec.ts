import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeAll } from '../../../lib/cli/init/write.js';

describe('writeAll: all files, or none', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'outbox-write-'));
    writeFileSync(join(folder, 'a.ts'), 'a');
    writeFileSync(join(folder, 'b.ts'), 'b');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const change = (name: string, before: string | undefined) => ({
    path: join(folder, name),
    before,
    after: `${name} after`,
  });
  const text = (name: string): string => readFileSync(join(folder, name), 'utf8');

  it('writes changed files and new ones, and leaves nothing beside them', () => {
    writeAll(folder, [change('a.ts', 'a'), change('b.ts', 'b'), change('c.ts', undefined)]);
    expect(['a.ts', 'b.ts', 'c.ts'].map(text)).toEqual(['a.ts after', 'b.ts after', 'c.ts after']);
    expect(readdirSync(folder).sort()).toEqual(['a.ts', 'b.ts', 'c.ts']);
  });

  it('puts back what was written when a later file cannot take its place', () => {
    mkdirSync(join(folder, 'd.ts', 'full'), { recursive: true });
    const changes = [change('a.ts', 'a'), change('c.ts', undefined), change('d.ts', undefined), change('b.ts', 'b')];
    expect(() => writeAll(folder, changes)).toThrow('Nothing was changed.');
    expect([text('a.ts'), text('b.ts')]).toEqual(['a', 'b']);
    expect(readdirSync(folder).sort()).toEqual(['a.ts', 'b.ts', 'd.ts']);
  });

  it('writes nothing where a file was changed meanwhile', () => {
    writeFileSync(join(folder, 'b.ts'), 'of somebody else');
    expect(() => writeAll(folder, [change('a.ts', 'a'), change('b.ts', 'b')])).toThrow('b.ts was changed meanwhile');
    expect([text('a.ts'), text('b.ts')]).toEqual(['a', 'of somebody else']);
    expect(readdirSync(folder).sort()).toEqual(['a.ts', 'b.ts']);
  });
});
