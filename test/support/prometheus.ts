import { spawn, spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, makeFolder, onceAtExit, UNPRIVILEGED } from '../../bench/support/own-server.js';
import { until } from './until.js';

/** Seconds between two scrapes, and between two looks at the rules. */
const EVERY = 1;

export interface Alert {
  readonly name: string;
  readonly state: 'pending' | 'firing';
  readonly labels: Readonly<Record<string, string>>;
}
interface Rule {
  readonly name: string;
  readonly health: string;
  readonly lastError?: string;
}

/** A Prometheus of one test, which scrapes its applications. */
export class PrometheusServer {
  static readonly isInstalled = spawnSync('prometheus', ['--version']).error === undefined;

  private constructor(
    readonly url: string,
    /** Ends at once. */
    readonly stop: () => void,
  ) {}

  /**
   * @param targets `host:port` whose `/metrics` is scraped, each
   * @param rules text of a file of rules
   */
  static async start(targets: readonly string[], rules: string): Promise<PrometheusServer> {
    const folder = makeFolder('prometheus');
    const port = await freePort();
    const config = {
      global: { scrape_interval: `${EVERY}s`, scrape_timeout: `${EVERY}s`, evaluation_interval: `${EVERY}s` },
      rule_files: [join(folder, 'rules.yml')],
      scrape_configs: [{ job_name: 'outbox', static_configs: [{ targets }] }],
    };
    writeFileSync(join(folder, 'rules.yml'), rules);
    writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config)); // which is YAML
    const flags = [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ];
    const child = spawn('prometheus', flags, { cwd: folder, stdio: 'ignore', ...UNPRIVILEGED });
    child.unref();
    const stop = onceAtExit(() => {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    });
    const url = `http://127.0.0.1:${port}`;
    await until(async () => {
      if (child.exitCode !== null) throw new Error('Prometheus did not start');
      return fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
    });
    return new PrometheusServer(url, stop);
  }

  /** What each target's last scrape said; empty: it was well. */
  async scrapeErrors(): Promise<readonly string[]> {
    const { activeTargets } = await this.ask<{ activeTargets: { health: string; lastError: string }[] }>('targets');
    return activeTargets.map(({ health, lastError }) => (health === 'up' ? '' : `${health}: ${lastError}`));
  }
  async rules(): Promise<readonly Rule[]> {
    const { groups } = await this.ask<{ groups: { rules: Rule[] }[] }>('rules');
    return groups.flatMap(({ rules }) => rules);
  }
  async alerts(): Promise<readonly Alert[]> {
    const { alerts } = await this.ask<{ alerts: Pick<Alert, 'state' | 'labels'>[] }>('alerts');
    return alerts.map(({ state, labels }) => ({ name: labels['alertname'] ?? '', state, labels }));
  }
  /** The names of all series that were ever scraped. */
  names(): Promise<readonly string[]> {
    return this.ask('label/__name__/values');
  }

  private async ask<T>(path: string): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1/${path}`);
    return ((await answer.json()) as { data: T }).data;
  }
}
