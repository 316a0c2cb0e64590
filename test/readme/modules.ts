import { posix } from 'node:path';
import { transformSync } from '@swc/core';
import { blocksIn, type Block } from './documents.js';

/** Runs blocks that are whole files, as they stand in the documents; they import each other by their names. */
export class DocumentedModules {
  /** @internal */ readonly loaded = new Map<string, Record<string, unknown>>();

  /**
   * @param external Jest's own `require`, which maps the package's name to lib/
   * @param it takes the tests that a document defines, to be run when the caller is ready
   * @param blocks others than those that stand in the documents
   */
  constructor(
    /** @internal */ readonly external: (name: string) => unknown,
    /** @internal */ readonly it: (name: string, body: () => Promise<void>) => void = () => {},
    /** @internal */ readonly blocks: readonly Block[] = blocksIn('ts', ''),
  ) {}

  load<T = Record<string, never>>(file: string): T {
    const exports = this.loaded.get(file) ?? this.run(file);
    return exports as T;
  }

  /** @internal */
  run(file: string): Record<string, unknown> {
    const block = this.blocks.find((one) => one.file === file);
    if (block === undefined) throw new Error(`No document has a block ${file}`);
    const exports: Record<string, unknown> = {};
    this.loaded.set(file, exports);
    const load = (name: string): unknown =>
      name.startsWith('.')
        ? this.load(posix.join(posix.dirname(file), name.replace(/\.js$/, '.ts')))
        : this.external(name);
    const code = compile(block.text, block.place);
    // eslint-disable-next-line no-new-func -- the code is the documents' own
    new Function('exports', 'require', 'it', code)(exports, load, this.it);
    return exports;
  }
}

function compile(text: string, place: string): string {
  return transformSync(text, {
    filename: `${place.replace(/\W+/g, '-')}.ts`,
    swcrc: false,
    sourceMaps: 'inline',
    jsc: {
      target: 'es2022',
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true },
      keepClassNames: true,
    },
    module: { type: 'commonjs' },
  }).code;
}
