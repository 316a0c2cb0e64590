/**
 * One command after the other in one process: to load Nest and TypeORM takes most of a command's time. The sources of the command,
 * and the built library, as its own file loads it. Started by `warm-cli.ts`; what a process is, a terminal, a signal or an end, is not here.
 */
import { Readable, Writable } from 'node:stream';
import { processTerminal } from '../../lib/cli/process-terminal.js';
import { run } from '../../lib/cli/run.js';
import type { Asked } from '../cli/support/warm-cli.js';

/** What is printed past the terminal goes where a command's own process sends it: to stderr. */
let stray: (text: string) => void = () => {};
const write = ((text: string | Uint8Array) => {
  stray(String(text));
  return true;
}) as typeof process.stdout.write;
process.stdout.write = write;
process.stderr.write = write;

function kept(): { stream: Writable; text: () => string } {
  let text = '';
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _encoding, done) {
      text += chunk;
      done();
    },
  });
  return { stream, text: () => text };
}

process.on('message', ({ bin, args, env, folder }: Asked) => {
  process.argv[1] = bin;
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(folder);
  const [stdin, stdout, stderr] = [Readable.from([]), kept(), kept()];
  stray = (text) => void stderr.stream.write(text);
  const exit = (code: number): void => {
    process.send?.({ code, stdout: stdout.text(), stderr: stderr.text() });
  };
  const own = { stdin, stdout: stdout.stream, stderr: stderr.stream, env: process.env, exit, on: () => own };
  const terminal = processTerminal(own as unknown as NodeJS.Process);
  void run(args, terminal).then((code) => terminal.end(code));
});
process.send?.('ready');
