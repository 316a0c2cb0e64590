import Sequencer from '@jest/test-sequencer';

/**
 * Jest begins with the largest files where it knows no times. Those that run a contract are small, and take minutes: left to
 * the end, one worker runs them while the others have nothing to do.
 */
const SLOW = [/contract\/store-/, /integration\/.*(relay|fleet|faults|visibility|debezium)[-./]/, /processes\//];

export default class SlowFirst extends (Sequencer.default ?? Sequencer) {
  sort(tests) {
    const rank = ({ path }) => (SLOW.some((each) => each.test(path)) ? 0 : 1);
    return super.sort(tests).toSorted((a, b) => rank(a) - rank(b));
  }
}
