import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import Sequencer from '@jest/test-sequencer';
import { tierOf } from '../../tools/tiers.mjs';

/** What took three seconds or more, by `npm test` with OUTBOX_TEST_KEEP_TIMES=true. */
const SECONDS = JSON.parse(readFileSync(join(process.cwd(), 'test', 'support', 'seconds.json'), 'utf8'));
/** What a file may take that nobody has measured. */
const GUESS = 20;

/**
 * Jest begins with the largest files where it knows no times. Those that run a contract are small, and take minutes: left to
 * the end, one worker runs them while the others have nothing to do.
 */
export default class SlowFirst extends (Sequencer.default ?? Sequencer) {
  sort(tests) {
    return slowFirst(super.sort(tests), SECONDS);
  }
}

/** What Jest remembers of this machine goes before what is known of another. */
export function slowFirst(tests, seconds, root = process.cwd()) {
  const expected = ({ duration, path }) => {
    if (duration !== undefined) return duration / 1_000;
    const name = relative(root, path).replaceAll('\\', '/');
    return seconds[name] ?? (tierOf(name, '') === 'fast' ? 1 : GUESS);
  };
  return tests.toSorted((a, b) => expected(b) - expected(a));
}
