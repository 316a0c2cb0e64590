/** More files than these do not fail by chance. */
const MOST = 3;

/**
 * For the gate alone: a file that failed runs once more by itself. One that is green then failed by chance, which is a defect to mend,
 * and holds nothing else back.
 * @param files `testResults` of Jest's report in JSON
 * @param runAlone gives such a result of the one file that it names
 * @returns the results that count, and the first ones of what failed by chance
 */
export async function again(files, runAlone) {
  const red = files.filter(({ status }) => status === 'failed');
  if (red.length > MOST) return { files, flaky: [] };
  const counted = [...files];
  const flaky = [];
  for (const file of red) {
    const second = await runAlone(file.name);
    if (second?.status !== 'passed') continue;
    counted[files.indexOf(file)] = second;
    flaky.push(file);
  }
  return { files: counted, flaky };
}
