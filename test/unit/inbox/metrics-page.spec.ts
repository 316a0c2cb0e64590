import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { INBOX_METRICS } from '../../../lib/prometheus/catalogue.js';

describe('docs/inbox.md', () => {
  it('has every metric with its type and labels, in the order of a scrape', () => {
    const page = readFileSync(join(process.cwd(), 'docs/inbox.md'), 'utf8');
    const rows = [...page.matchAll(/^\| `(outbox_\w+)` \| (\w+) \| ([^|]*) \|/gm)].map(([, ...row]) => row);
    const labelsOf = (labels: readonly string[]): string => labels.map((label) => `\`${label}\``).join(', ') || '—';
    expect(rows).toEqual(INBOX_METRICS.map(({ name, type, labels }) => [name, type, labelsOf(labels)]));
  });
});
