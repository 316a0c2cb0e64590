// node tools/noted.mjs <name> <command> [arguments]: runs the command. One that took half a minute or more adds a line to
// docs/internals/runs.md, with the arguments of whoever called it, whether it was good, and the last line of its output.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { noteRun } from './runs.mjs';

/** Milliseconds. What is shorter is a look, and no proof of anything. */
const WORTH_A_LINE = 30_000;
/** Characters of the last line. */
const LONGEST = 160;

const [name, command, ...args] = process.argv.slice(2);
const begun = Date.now();
let tail = '';
const child = spawn(command, args, { stdio: ['inherit', 'pipe', 'inherit'] });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.stdout.on('data', (chunk) => {
  process.stdout.write(chunk);
  tail = (tail + chunk).slice(-10_000);
});
child.once('error', (error) => {
  console.error(error.message);
  process.exitCode = 1;
});
child.once('close', (code, signal) => {
  const took = Date.now() - begun;
  const last = tail.trim().split('\n').at(-1).slice(0, LONGEST);
  const given = args.filter((word, at) => word.startsWith('--') || args[at - 1]?.startsWith('--')).filter(isOfCaller);
  if (took >= WORTH_A_LINE)
    noteRun([name, ...given].join(' '), `${code === 0 ? 'ok' : 'FAILED'}, ${Math.round(took / 1_000)} s: ${last}`);
  process.exitCode = code ?? 128 + constants.signals[signal];
});

/** Not what package.json tells Node. */
function isOfCaller(word) {
  return !/^--(?:import|max-semi-space-size)|^\.\/tools\//.test(word);
}
