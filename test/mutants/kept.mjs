import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

const SOURCES = ['lib', 'test/simulation'];

/**
 * Verdicts that earlier runs left in a file, one line of JSON each, written as they come. A run that was ended goes on where it was:
 * what has a verdict on the same sources, which are `lib` and the simulation, is not judged again. Of two lines for one name the later
 * holds.
 */
export class Kept {
  constructor(file, sources, commit) {
    this.file = file;
    this.sources = sources;
    this.commit = commit;
    this.controls = new Map();
    this.results = new Map();
    for (const line of existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [])
      this.take(JSON.parse(line));
  }

  /**
   * @param on the database that judges, where it is not the usual one: its verdicts are others
   * @throws when the sources are not as they were committed: nobody could say later what was judged
   */
  static in(file, on) {
    const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
    const changed = git('status', '--porcelain', ...SOURCES);
    if (changed !== '') throw new Error(`--resume: commit these first, or judge without it:\n${changed}`);
    const sources = git('rev-parse', ...SOURCES.map((folder) => `HEAD:${folder}`)).split('\n');
    const trees = sources.map((tree) => tree.slice(0, 12));
    return new Kept(file, [...trees, ...(on === undefined ? [] : [on])].join(' '), git('rev-parse', '--short', 'HEAD'));
  }

  take({ sources, control, result }) {
    if (sources !== this.sources) return;
    if (control !== undefined) this.controls.set(nameOf(control), control);
    if (result !== undefined) this.results.set(result.name, result);
  }

  /** Of an innocent that was acquitted; another verdict may have been the machine's, and is asked for again. */
  control(layer, what) {
    const control = this.controls.get(nameOf({ layer, what }));
    return control?.acquits ? control : undefined;
  }

  /** Of a mutant that was convicted, by its kept seeds, too. */
  result(name) {
    const result = this.results.get(name);
    return result !== undefined && result.by.length > 0 && result.blindSeeds.length === 0 ? result : undefined;
  }

  add(verdict) {
    const line = { sources: this.sources, commit: this.commit, ...verdict };
    this.take(line);
    appendFileSync(this.file, `${JSON.stringify(line)}\n`);
  }
}

/** Of a run that keeps nothing, and goes on from nothing. */
export const NOTHING_KEPT = { control: () => undefined, result: () => undefined, add: () => {} };

const nameOf = ({ layer, what }) => `${layer} ${what}`;
