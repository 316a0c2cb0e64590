import { relative } from 'node:path';
import { CliError, EXIT } from '../exit-code.js';
import type { TypeScript } from './typescript.js';

/** What to do in its place. */
export const BY_HAND = 'Nothing was changed. docs/first-steps.md of the package shows how to add it by hand.';

/** Ends `init` before anything is written: a place in the application is not understood. */
export function refuse(root: string, node: TypeScript.Node, problem: string): never {
  const file = node.getSourceFile();
  const { line } = file.getLineAndCharacterOfPosition(node.getStart());
  throw new CliError(EXIT.failed, `${relative(root, file.fileName)}:${line + 1}: ${problem} ${BY_HAND}`);
}
