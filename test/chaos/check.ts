import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { Judge } from './check/judge.js';

/**
 * Reads the history of one chaos run and says what was broken. Knows the file (`history.ts` tells its lines) and nothing of
 * the library, the databases or the brokers.
 *   node --import ./tools/typescript.mjs test/chaos/check.ts <history.jsonl>
 * The last line is the verdict, as JSON, with what tells this history from any other; examples of violations go to stderr.
 * Exit code 0: nothing is broken.
 */
const [file] = process.argv.slice(2);
if (file === undefined) {
  console.error('Which history?');
  process.exit(2);
}
const judge = new Judge();
const hash = createHash('sha256');
let lines = 0;
const input = createReadStream(file).on('data', (bytes) => hash.update(bytes));
for await (const line of createInterface({ input, crlfDelay: Infinity })) {
  if (line === '') continue;
  judge.take(JSON.parse(line) as unknown[]);
  lines += 1;
}
const verdict = judge.verdict();
for (const example of judge.broken.examples) console.error(example);
console.log(JSON.stringify({ ...verdict, history: { sha256: hash.digest('hex'), lines } }));
process.exitCode = judge.broken.counts.size > 0 ? 1 : 0;
