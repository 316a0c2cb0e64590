import { blocksIn, type Block } from './documents.js';

/** ```diff blocks: their first line names a file of the documents, the others say which of its lines go and which come. */
export function patchedBlocks(): Block[] {
  const patches = blocksIn('diff');
  for (const { place, text } of patches) {
    if (blocksIn('ts').every(({ file }) => file !== fileOf(text))) throw new Error(`${place}: no block has this file`);
  }
  return blocksIn('ts', '').map((block) =>
    patches.filter(({ text }) => fileOf(text) === block.file).reduce((patched, patch) => apply(patched, patch), block),
  );
}

/** As a reader does it: a line with `-` is replaced by the `+` that follows it; a `+` without one is put at the top. */
function apply(block: Block, patch: Block): Block {
  let { text } = block;
  let gone: string | undefined;
  for (const line of patch.text.split('\n').slice(1, -1)) {
    const [sign, content] = [line[0], `${line.slice(1)}\n`];
    if (sign === '-') {
      if (text.split(content).length !== 2) throw new Error(`${patch.place}: ${block.place} has not one line ${line}`);
      gone = content;
    } else if (sign === '+') {
      const [old, now] = gone === undefined ? ['', content] : [gone, content];
      text = text.replace(old, () => now);
      gone = undefined;
    } else throw new Error(`${patch.place}: neither + nor -: ${line}`);
  }
  if (gone !== undefined) throw new Error(`${patch.place}: nothing comes in the place of ${gone}`);
  return { ...block, text };
}

function fileOf(text: string): string | undefined {
  return /^ \/\/ (src\/\S+\.ts)\n/.exec(text)?.[1];
}
