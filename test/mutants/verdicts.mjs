// What a layer's output says of the sources that it ran on. A run that did not come to its end says nothing.
export const CONVICTS = 'convicts';
export const ACQUITS = 'acquits';
export const BROKE = 'broke';

const convicts = (detail) => ({ verdict: CONVICTS, detail });
const broke = (detail) => ({ verdict: BROKE, detail });
const acquits = { verdict: ACQUITS, detail: undefined };

/**
 * Of what the checker of the chaos runs finds, that of which a bug in the library can be convicted. Not what a busy machine
 * or another bug does to a process: its memory, its connections, its end, and what the writers' own transactions met.
 */
export const SIGNS = [
  'lost',
  'ghosts',
  'stuck',
  'orderBreaks',
  'unexplainedDuplicates',
  'calmDuplicates',
  'tooManyDuplicates',
  'wrongDeadLetters',
  'untoldDeadLetters',
  'publishAfterLease',
  'slowTakeovers',
  'corrupt',
];

/** @param last the last line of the simulation */
export function ofSimulation({ code, hangs, last, errors }) {
  if (hangs) return convicts('it hangs');
  if (last.violations === undefined) return broke(`exit code ${code}: ${errors}`);
  if (last.violations === 0) return acquits;
  const invariants = Object.keys(last).filter((name) => name.startsWith('invariant'));
  const told = invariants.length === 0 ? '' : `: ${invariants.join(', ')}`;
  return convicts(`${last.violations} of ${last.histories} histories${told}`);
}

/** @param jest its report as JSON; `undefined` when it left none */
export function ofContract(jest) {
  if (jest === undefined) return broke('Jest left no report');
  const tests = jest.testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = tests.filter(({ status }) => status === 'failed');
  if (failed.length === 0) {
    if (jest.numRuntimeErrorTestSuites > 0)
      return broke(`it does not load: ${firstLine(jest.testResults[0]?.message)}`);
    return jest.numPassedTests > 0 ? acquits : broke('no test ran');
  }
  // What is wrong before the first test, a server that is gone for one, fails all of them with the same words; an assertion has judged.
  const texts = new Set(failed.map(({ failureMessages }) => firstLine(failureMessages?.[0])));
  const [text] = texts;
  if (jest.numPassedTests === 0 && failed.length > 1 && texts.size === 1 && !ASSERTION.test(text))
    return broke(`all fail alike: ${text}`);
  return convicts(`“${failed[0].fullName.trim()}”${failed.length > 1 ? ` and ${failed.length - 1} more` : ''}`);
}

/** @param last the checker's verdict @param signs those that count for this mutant */
export function ofChaos({ code, last, errors }, signs = SIGNS) {
  if (last.broken === undefined || !(last.committed > 0)) return broke(`exit code ${code}: ${errors}`);
  const seen = last.broken.filter((name) => signs.includes(name));
  if (seen.length > 0) return convicts(seen.map((name) => `${name} ${last[name]}`).join(', '));
  return last.broken.length === 0 ? acquits : { ...acquits, detail: `only ${last.broken.join(', ')}` };
}

const ASSERTION = /expect\(|AssertionError/;
const firstLine = (text) =>
  String(text ?? '')
    .trim()
    .split('\n')[0]
    .slice(0, 200);
