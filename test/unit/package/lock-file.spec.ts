import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Entry {
  readonly integrity?: string;
  readonly resolved?: string;
}
const file = join(__dirname, '..', '..', '..', 'package-lock.json');
const { packages } = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Entry> };
const entries = Object.entries(packages).filter(([path]) => path !== '');

describe('package-lock.json', () => {
  it('has a checksum of each package, of other platforms, too: npm ci takes nothing unverified', () => {
    expect(entries.length).toBeGreaterThan(500);
    const unverified = entries.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''));
    expect(unverified.map(([path]) => path)).toEqual([]);
  });

  it('names no registry: each machine takes its own', () => {
    expect(entries.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path)).toEqual([]);
  });
});
