import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { METRICS } from '../../lib/prometheus/catalogue.js';
import { OutboxPrometheus } from '../../lib/prometheus/index.js';
import { describeUnlessMissing } from '../support/services.js';
import { FakeOutbox } from '../unit/prometheus/fake-outbox.js';

const ROOT = process.cwd();
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const RULES = 'ops/prometheus-rules.yml';
const DASHBOARD = 'ops/grafana-dashboard.json';
const rules = read(RULES);
/** The address of a heading on a page of this repository, as an alert has it. */
const RUNBOOK = new RegExp(`runbook_url: ${repositoryOf(read('package.json'))}/blob/main/(\\S+)#(\\S+)$`, 'gm');
function repositoryOf(manifest: string): string {
  return (JSON.parse(manifest) as { repository: { url: string } }).repository.url.replace(/^git\+|\.git$/g, '');
}
const dashboard = JSON.parse(read(DASHBOARD)) as {
  panels: { id: number; title: string; type: string; targets?: { expr: string }[] }[];
};

/** The names in expressions: of a histogram also those of its parts. */
function namesIn(text: string): string[] {
  return [...new Set([...text.matchAll(/\boutbox_[a-z_]+(?=[{[\s)]|$)/gm)].map(([name]) => name))].sort();
}
/** As a scrape shows them, after one message of each kind. */
async function exported(): Promise<Map<string, Set<string>>> {
  const [outbox, registry] = [new FakeOutbox(), new Registry()];
  const metrics = new OutboxPrometheus(outbox as never, { registry }, outbox.clock);
  await outbox.tell('started', { role: 'relay', transports: ['events'], buckets: 32 });
  await outbox.tell('cleaned', { published: 1, dead: 0, dedup: 0 });
  await outbox.tell('error', { operation: 'fetch', error: undefined, retryIn: 1 });
  await outbox.publish();
  const found = new Map<string, Set<string>>();
  for (const [, name, labels] of (await registry.metrics()).matchAll(/^(outbox_\w+)\{(.*)\} \S+$/gm)) {
    const known = found.get(name as string) ?? new Set();
    for (const [, label] of (labels as string).matchAll(/(\w+)="/g)) known.add(label as string);
    found.set(name as string, known);
  }
  metrics.close();
  return found;
}
const alertsIn = (): string[] => [...rules.matchAll(/^ {6}- alert: (\w+)$/gm)].map(([, name]) => name as string);
const expressions = (): string[] => [
  ...[...rules.matchAll(/^ {8}expr: (.*)$/gm)].map(([, expr]) => expr as string),
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
];

describe('the alert rules and the dashboard in ops/', () => {
  it('name metrics that are exported, with labels that they have', async () => {
    const known = await exported();
    expect(expressions().length).toBeGreaterThan(40);
    expect(namesIn(expressions().join('\n')).filter((name) => !known.has(name))).toEqual([]);
    const wrong = expressions().flatMap((expr) =>
      [...expr.matchAll(/(outbox_\w+)\{([^}]*)\}/g)].flatMap(([, name, selector]) =>
        [...(selector as string).matchAll(/(\w+)\s*[=!]/g)]
          .filter(([, label]) => !known.get(name as string)?.has(label as string))
          .map(([, label]) => `${name} has no label ${label}`),
      ),
    );
    expect(wrong).toEqual([]);
    const labels = new Set([...known.values()].flatMap((each) => [...each]).concat('instance'));
    const by = expressions().flatMap((expr) =>
      [...expr.matchAll(/\bby \(([^)]*)\)/g)].map(([, list]) => list as string),
    );
    expect(by.flatMap((list) => list.split(', ')).filter((label) => !labels.has(label))).toEqual([]);
  });

  it('use every metric on the dashboard, each panel of it with a query', () => {
    const shown = namesIn(expressions().join('\n')).map((name) => name.replace(/_(bucket|sum|count)$/, ''));
    expect(METRICS.map(({ name }) => name).filter((name) => !shown.includes(name))).toEqual([]);
    const panels = dashboard.panels.filter(({ type }) => type !== 'row');
    expect(panels.filter(({ targets = [] }) => targets.length === 0)).toEqual([]);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });

  it('lead each to the runbook that the table of docs/troubleshooting.md has for it', () => {
    const RUNBOOKS = 'docs/troubleshooting.md';
    const runbooks = [
      ...read(RUNBOOKS).matchAll(/^\| ((?:`Outbox\w+`(?:, )?)+) \| \[[^\]]*\]\(#(\S+)\) \|$/gm),
    ].flatMap(([, alerts, anchor]) =>
      [...(alerts as string).matchAll(/\w+/g)].map(([alert]) => [alert, `${RUNBOOKS}#${anchor}`] as const),
    );
    const links = [...rules.matchAll(RUNBOOK)].map(([, file, anchor]) => `${file}#${anchor}`);
    const named = alertsIn().map((alert, i) => [alert, links[i]]);
    expect(links).toHaveLength(named.length);
    expect(Object.fromEntries(named)).toEqual(Object.fromEntries(runbooks));
    const headings = [...read(RUNBOOKS).matchAll(/^## (.*)$/gm)].map(
      ([, heading]) => `${RUNBOOKS}#${(heading as string).toLowerCase().replaceAll(' ', '-')}`,
    );
    expect(links.filter((link) => !headings.includes(link))).toEqual([]);
  });
});

describe('docs/metrics.md', () => {
  it('has every metric with its type and labels, in the order of a scrape', () => {
    const rows = [...read('docs/metrics.md').matchAll(/^\| `(outbox_\w+)` \| (\w+) \| ([^|]*) \|/gm)];
    expect(rows.map(([, name, type, labels]) => [name, type, labels])).toEqual(
      METRICS.map(({ name, type, labels }) => [name, type, labels.map((label) => `\`${label}\``).join(', ') || '—']),
    );
  });
});

const promtool = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: ROOT, encoding: 'utf8' });
  return { status, said: `${stdout}${stderr}` };
};
const isInstalled = spawnSync('promtool', ['--version']).error === undefined;

describeUnlessMissing(isInstalled ? [] : ['promtool'], 'promtool', () => {
  it('reads every rule', () => {
    const { status, said } = promtool('check', 'rules', RULES);
    expect([status, said]).toEqual([0, expect.stringContaining(`${alertsIn().length} rules found`)]);
  });

  it('sees each alert fire when its time has come, and not before; every alert is tried', () => {
    const tried = read('test/ops/rules.test.yml');
    expect(alertsIn().filter((name) => !new RegExp(`alertname: ${name}\\n`).test(tried))).toEqual([]);
    expect(promtool('test', 'rules', 'test/ops/rules.test.yml')).toMatchObject({ status: 0 });
  });

  it('understands every query of the dashboard', () => {
    const folder = mkdtempSync(join(tmpdir(), 'outbox-ops-'));
    try {
      const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
      // JSON is YAML: each query as a recording rule.
      const rulesOf = queries.map((expr, n) => ({
        record: `query_${n}`,
        expr: expr.replaceAll('$__rate_interval', '5m'),
      }));
      const file = join(folder, 'queries.yml');
      writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules: rulesOf }] }));
      const { status, said } = promtool('check', 'rules', file);
      expect([status, said]).toEqual([0, expect.stringContaining(`${queries.length} rules found`)]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
