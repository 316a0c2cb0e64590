// node --import ./tools/typescript.mjs file.ts     runs TypeScript of this repository (lib, bench, test) without a build.
import { register } from 'node:module';

register('./typescript-hooks.mjs', import.meta.url);
