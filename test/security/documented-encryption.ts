import { createRequire } from 'node:module';
import { transformSync } from '@swc/core';
import type { PayloadEncryption } from '../../lib/index.js';
import { blocksIn } from '../readme/documents.js';

/** The class that docs/security.md shows, run as it stands there. */
export function documentedEncryption(): new (keys: ReadonlyMap<string, Buffer>) => PayloadEncryption {
  const block = blocksIn('ts').find(({ file }) => file === 'src/payload-encryption.ts');
  if (block === undefined) throw new Error('docs/security.md has no src/payload-encryption.ts');
  const { code } = transformSync(block.text, {
    jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
    module: { type: 'commonjs' },
  });
  const exported = {} as { AesGcmEncryption: new (keys: ReadonlyMap<string, Buffer>) => PayloadEncryption };
  // eslint-disable-next-line no-new-func, typescript/no-implied-eval -- the documentation's own code
  new Function('exports', 'require', code)(exported, createRequire(__filename));
  return exported.AesGcmEncryption;
}
