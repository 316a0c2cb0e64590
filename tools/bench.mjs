// npm run bench -- <name> [arguments]: runs bench/<name>.ts; without a name, lists what there is.
import { readdirSync } from 'node:fs';
import './typescript.mjs';

const names = readdirSync(new URL('../bench/', import.meta.url))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -3));
// The benchmark sees its own arguments only.
const [name] = process.argv.splice(2, 1);

if (names.includes(name)) await import(`../bench/${name}.ts`);
else {
  console.error(`npm run bench -- ${names.join(' | ')}`);
  process.exitCode = 2;
}
