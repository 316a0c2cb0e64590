// No verdict of a test hangs on how fast the machine is. Prints one line for each `expect` that holds time that went by, or CPU that
// was used, against less than a minute; exit code 1 when there is one. A minute says "never", and less says "slowly".
//   // clock: <reason>     on the line, or on the one above: what is compared is no speed of this machine
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Milliseconds: the ceiling that only says "never". */
const NEVER = 60_000;
const CLOCK = /\b(?:performance\.now|Date\.now|process\.(?:hrtime|cpuUsage)|took|elapsed)\b/;

export function ceilingsIn(name, text) {
  if (!CLOCK.test(text)) return [];
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  const lines = text.split('\n');
  const clocks = new Set();
  const out = [];
  const readsClock = (node) =>
    CLOCK.test(node.getText()) || [...clocks].some((each) => new RegExp(`\\b${each}\\b`).test(node.getText()));
  const visit = (node) => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer && isElapsed(node.initializer))
      clocks.add(node.name.text);
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) judge(node);
    ts.forEachChild(node, visit);
  };
  const judge = (call) => {
    const { name: method } = call.expression;
    const [less, limit] = compared(call) ?? [];
    if (!less || !limit || !readsClock(less) || Number(limit.getText().replaceAll('_', '')) >= NEVER) return;
    const at = file.getLineAndCharacterOfPosition(method.getStart()).line;
    if ([at, at - 1].some((line) => /\/\/ clock: \S/.test(lines[line] ?? ''))) return;
    out.push(`${name}:${at + 1}: ${lines[at].trim()}`);
  };
  visit(file);
  return out;
}

/** Of an `expect` that compares: what is to be less, and than what. */
function compared(call) {
  let { expression: subject, name } = call.expression;
  let holds = true;
  for (; ts.isPropertyAccessExpression(subject); subject = subject.expression) holds &&= subject.name.text !== 'not';
  const [value, limit] = [subject.arguments?.[0], call.arguments[0]];
  const order = /^toBe(Less|Greater)Than/.exec(name.text)?.[1];
  if (order !== undefined) return (order === 'Less') === holds ? [value, limit] : [limit, value];
  if (name.text !== 'toBe' || !value || !ts.isBinaryExpression(value)) return undefined;
  if (limit?.getText() !== 'true') holds = !holds;
  const operator = /^([<>])=?$/.exec(value.operatorToken.getText())?.[1];
  return operator && ((operator === '<') === holds ? [value.left, value.right] : [value.right, value.left]);
}

/** Holds a difference of two times, rather than a time of day. */
function isElapsed(node) {
  const { left, right, operatorToken } = node;
  if (operatorToken?.kind === ts.SyntaxKind.MinusToken && !ts.isNumericLiteral(right))
    return CLOCK.test(left.getText() + right.getText());
  return !ts.isFunctionLike(node) && ts.forEachChild(node, isElapsed) === true;
}

function checkAll() {
  const files = execFileSync('git', ['ls-files', 'test/*.ts', 'sample/*.spec.ts'], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((name) => name !== '' && !name.startsWith('test/chaos/'));
  const found = files.flatMap((name) => ceilingsIn(name, readFileSync(join(root, name), 'utf8')));
  for (const line of found) console.error(line);
  if (found.length > 0)
    console.error(`${found.length} verdicts hang on the speed of the machine: see tools/check-clocks.mjs`);
  process.exitCode = found.length > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) checkAll();
