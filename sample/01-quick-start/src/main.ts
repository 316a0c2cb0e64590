import { readArguments } from './demo/arguments.js';
import { runDemo } from './demo/run.js';
import { serve } from './demo/serve.js';

export async function main(argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const args = readArguments(argv);
  if (!args.serve) return (await runDemo(args, interruption)) ? 0 : 1;
  await serve(args, interruption);
  return 0;
}
