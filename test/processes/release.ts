import { execFileSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DATABASES, IS_WHOLE } from '../support/services.js';
import { startFile } from '../support/own-process.js';
import { transpileFolder } from '../support/transpile.js';

/** The last commit with each earlier version of the tables, and where its relay works. */
export const RELEASES = {
  // On MySQL it publishes nothing: the server refuses its locks on a join (3569).
  'version 1': { version: 1, commit: '09d7dcf34a68eb7095324bbb7c89f66ab26c3f68', databases: ['postgres', 'mariadb'] },
  // In the gate where version 1 says nothing: on the others its way leads over version 2.
  'version 2': {
    version: 2,
    commit: '70bfb641e2772d24d4a15835ac86791e2ead2cf9',
    databases: IS_WHOLE ? DATABASES : (['mysql'] as const),
  },
} as const;

/** The package as it was, built from its commit with the dependencies of today. */
export class OldRelease {
  private constructor(readonly folder: string) {}

  static build(commit: string): OldRelease {
    const folder = mkdtempSync(join(tmpdir(), 'outbox-release-'));
    const files = execFileSync('git', ['archive', commit, 'lib', 'package.json'], { maxBuffer: 2 ** 28 });
    execFileSync('tar', ['-x', '-C', folder], { input: files });
    symlinkSync(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'));
    transpileFolder(join(folder, 'lib'), join(folder, 'dist', 'esm'));
    return new OldRelease(folder);
  }

  get path(): string {
    return join(this.folder, 'dist', 'esm');
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export interface ReleaseSettings {
  /** Folder with `index` and `typeorm` of the package. Absent: of this checkout. */
  readonly path?: string;
  readonly url: string;
  /** What was published and what was committed, a line each: `<key> <n> <id> <pid>`. */
  readonly ledger: string;
  readonly committed: string;
  readonly buckets: number;
  readonly setup?: 'none';
  /** Default true. */
  readonly writes?: boolean;
  /** Makes the tables by the release's own migrations, and ends. */
  readonly migrates?: boolean;
}
export interface ReleaseNews {
  readonly ready?: true;
  readonly migrated?: true;
  /** Code and text of an error at start. */
  readonly failed?: string;
  /** What it logged as an error. */
  readonly error?: string;
  /** Milliseconds of the longest transaction of its writer. */
  readonly longest?: number;
}

/** An application with a relay and a writer, of any release of the package, in a process of its own. */
export class ReleaseProcess {
  readonly news: ReleaseNews[] = [];
  readonly pid: number;

  private constructor(readonly child: ChildProcess) {
    this.pid = child.pid as number;
    child.on('message', (news: ReleaseNews) => this.news.push(news));
  }

  static start(settings: ReleaseSettings): ReleaseProcess {
    const variables = { RELEASE: JSON.stringify(settings) };
    return new ReleaseProcess(startFile('test/processes/release-process.ts', variables));
  }

  static async run(settings: ReleaseSettings): Promise<ReleaseProcess> {
    const started = ReleaseProcess.start(settings);
    await started.heard('ready');
    return started;
  }

  /** The first news of this kind. */
  async heard<K extends keyof ReleaseNews>(what: K): Promise<NonNullable<ReleaseNews[K]>> {
    const signal = AbortSignal.timeout(60_000);
    for (;;) {
      const found = this.news.find((one) => one[what] !== undefined)?.[what];
      if (found !== undefined) return found as NonNullable<ReleaseNews[K]>;
      if (this.ended) throw new Error(`The process ended before it said '${what}': ${JSON.stringify(this.news)}`);
      await Promise.race([once(this.child, 'message', { signal }), once(this.child, 'exit', { signal })]);
    }
  }

  /** The errors that it logged. */
  get errors(): string[] {
    return this.news.flatMap(({ error }) => error ?? []);
  }

  get ended(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Its writer and its relay finish what they have begun. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.ended) return;
    const exited = once(this.child, 'exit', { signal: AbortSignal.timeout(60_000) });
    this.child.kill(signal);
    await exited;
  }
}
