import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, posix, relative, sep } from 'node:path';
import commonjs from '@rollup/plugin-commonjs';
import { minify } from '@swc/core';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import ts from 'typescript';

/** Where `exports` has the entry points of both formats; the same path below it is the path below lib/. */
const ESM = './dist/esm/';
/** What imports no peer is there once, as CommonJS, for both formats. */
const CORE = 'core';
/** One per format, though it imports no peer itself: it tells the copies of the package apart by their files. */
const PER_FORMAT = /^(nest\/|[^/]+\.module\.js$)/;

/** Entry points of the package, `{ 'transports/kafka/index': '<folder>/transports/kafka/index.js' }`. */
function entryPoints(exports, folder, extension) {
  const targets = Object.values(exports).filter((target) => typeof target === 'object');
  const names = targets.map((target) => target.import.default.slice(ESM.length).replace(/\.js$/, ''));
  return Object.fromEntries(names.map((name) => [name, join(folder, `${name}${extension}`)]));
}

/**
 * Spaces are an eighth of all that is packed. Names stay, and each statement begins a line, so that a stack tells the place and Node
 * prints no more than it of an error that nobody caught.
 */
const compact = {
  name: 'compact',
  async generateBundle({ format }, files) {
    for (const file of Object.values(files)) {
      if (file.type !== 'chunk') continue;
      const { code } = await minify(file.code, {
        mangle: false,
        compress: false,
        module: format === 'es',
        format: { comments: false },
      });
      file.code = inLines(code, this.parse(code)).replaceAll(CORE_NAME, '$');
    }
  },
};

/** Rollup calls what `core/common.js` exports `core_common`, nearly four thousand times. */
const CORE_NAME = /\bcore_(?=[a-z]+[A-Za-z]*\b)/g;

function inLines(code, program) {
  const starts = [];
  const visit = (node) => {
    if (node.type === 'Program' || node.type === 'ClassBody' || node.type === 'BlockStatement')
      starts.push(...node.body.map(({ start }) => start));
    for (const value of Object.values(node))
      for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === 'string') visit(child);
  };
  visit(program);
  starts.sort((one, other) => one - other);
  return (
    starts
      .map((start, n) => `${code.slice(starts[n - 1] ?? 0, start)}\n`)
      .join('')
      .trimStart() + code.slice(starts.at(-1))
  );
}

/** TypeScript indents with four spaces, and gives the marks of a comment lines of their own. */
const indented = (code) =>
  code
    .replaceAll(/^(?: {4})+/gm, (spaces) => '\t'.repeat(spaces.length / 4))
    .replaceAll(/\/\*\*\n\t* \* /g, '/** ')
    .replaceAll(/^(\t* \*.*)\n\t* \*\/$/gm, '$1 */');

/** An application without TypeORM has no types of it: what names them in the public face is `any` there, and no error. */
const withoutNeed = (code) =>
  code.replace(/^import 'typeorm';\n/gm, '').replace(/^(?=import .* from 'typeorm';$)/gm, '// @ts-ignore\n');

/** What the command line loads of the application's copy by their files: no entry points. */
const OF_CLI = ['data-layers/tables/index', 'inbox/steps'];

const isExternal = (id) => !/^[./\\]|^[A-Za-z]:/.test(id);

/** The compiled modules in `folder`, bundled into `target`/esm and `target`/cjs. */
export async function bundleCode(exports, folder, target) {
  const bundle = await rollup({
    input: {
      ...entryPoints(exports, folder, '.js'),
      ...Object.fromEntries(OF_CLI.map((name) => [name, join(folder, `${name}.js`)])),
    },
    external: isExternal,
    onwarn(warning) {
      // What TypeScript writes before a decorator: `(this && this.__decorate) || …`.
      if (warning.code !== 'THIS_IS_UNDEFINED') throw new Error(warning.message);
    },
  });
  const options = {
    chunkFileNames: (chunk) => (chunk.name.startsWith(CORE) ? '[name].js' : 'shared/[name].js'),
    manualChunks: (id, modules) => coreChunk(id, folder, modules),
    // Both formats ask the core for the same names.
    minifyInternalExports: false,
    hoistTransitiveImports: false,
    generatedCode: { preset: 'es2015', symbols: false },
  };
  // An application in CommonJS has its own loader for peers: Jest's has no `import()`.
  const cjs = { format: 'cjs', exports: 'named', interop: 'auto', esModule: true, dynamicImportInCjs: false };
  await bundle.write({ ...options, ...cjs, dir: join(target, 'cjs'), plugins: [coreNames, compact] });
  await bundle.write({ ...options, format: 'es', dir: join(target, 'esm'), plugins: [coreFromCjs, compact] });
  await bundle.close();
}

/**
 * The command line in `folder`, one ES module with the parser in it: nobody who installs the package gets a dependency for a
 * command. It loads the package's own entry points when it runs.
 */
export async function bundleCli(folder, target) {
  const parser = dirname(createRequire(import.meta.url).resolve(PARSER));
  const bundle = await rollup({
    input: join(folder, 'cli', 'main.js'),
    external: (id) => isExternal(id) && id !== PARSER,
    plugins: [
      {
        name: 'parser',
        resolveId: (id) => (id === PARSER ? join(parser, 'esm.mjs') : null),
        // Two thirds of it are comments. The licence stands at the head of the file.
        transform: (code, id) => (id.startsWith(parser) ? { code: withoutComments(code), map: null } : null),
      },
      commonjs(),
    ],
    onwarn(warning) {
      throw new Error(warning.message);
    },
  });
  const { version } = JSON.parse(readFileSync(join(parser, 'package.json'), 'utf8'));
  const banner = `/*! ${PARSER} ${version} is in this file:\n\n${readFileSync(join(parser, 'LICENSE'), 'utf8')}*/`;
  const file = join(target, 'esm', 'cli', 'main.js');
  await bundle.write({ format: 'es', file, inlineDynamicImports: true, banner, plugins: [minified] });
  await bundle.close();
}
const PARSER = 'commander';

/** Nobody imports the command line or sees its stack. The names of classes are told in errors. */
const minified = {
  name: 'minified',
  renderChunk: (code) =>
    minify(code, {
      module: true,
      mangle: { keep_classnames: true },
      compress: { keep_classnames: true },
      format: { comments: 'some' },
    }),
};

function withoutComments(code) {
  const compilerOptions = { removeComments: true, target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.Preserve };
  return ts.transpileModule(code, { compilerOptions, fileName: 'code.js' }).outputText;
}

/**
 * The declarations in `folder`. Those that name no peer are there once, as CommonJS, like the code of the core: what they say does not
 * depend on who reads them. The others resolve their peers as the format does, and need files of their own.
 */
export async function bundleDeclarations(exports, folder, target) {
  const bundle = await rollup({
    input: entryPoints(exports, folder, '.d.ts'),
    external: isExternal,
    plugins: [dts()],
    onwarn(warning) {
      // A type that is shown and not exported: the API reports list them.
      if (!/private shared type exports/.test(warning.message)) throw new Error(warning.message);
    },
  });
  const tabsOfDeclarations = {
    name: 'tabs of declarations',
    renderChunk: (code) => ({ code: withoutNeed(indented(code)), map: null }),
  };
  for (const format of ['esm', 'cjs']) {
    await bundle.write({
      format: 'es',
      dir: join(target, format),
      entryFileNames: '[name].d.ts',
      chunkFileNames: ({ name }) => `shared/${name.replace(/\.d$/, '')}.d.ts`,
      manualChunks: (id, modules) => (namesNoPeer(id, modules) ? PEERLESS : undefined),
      minifyInternalExports: false,
      plugins: [tabsOfDeclarations, ...(format === 'esm' ? [declarationsFromCjs] : [])],
    });
  }
  await bundle.close();
}

/** The chunk of declarations that name no peer. */
const PEERLESS = 'declarations';

function namesNoPeer(id, { getModuleInfo }) {
  if (getModuleInfo(id).isEntry) return false;
  return reach([id], (one) => getModuleInfo(one)?.importedIds).every(
    (one) => !isExternal(one) || one.startsWith('node:'),
  );
}

const declarationsFromCjs = {
  name: 'declarations-from-cjs',
  generateBundle(_, files) {
    for (const file of Object.values(files)) {
      if (file.fileName === `shared/${PEERLESS}.d.ts`) delete files[file.fileName];
      else file.code = importDeclarations(file);
    }
  },
};

function importDeclarations({ code, fileName }) {
  const folder = posix.dirname(fileName);
  const path = (to) => posix.relative(folder, to).replace(/^(?!\.)/, './');
  const [here, there] = ['', '../cjs/'].map((format) => path(posix.join(format, 'shared', `${PEERLESS}.js`)));
  return code.replaceAll(`'${here}';`, `'${there}';`);
}

/** The chunk of a module that imports no peer: nobody loads what only others need, but for what three or more share. */
function coreChunk(id, folder, { getModuleInfo }) {
  if (getModuleInfo(id).isEntry) return undefined; // each format has its own: Rollup would make the core of it
  const reached = reach([id], (one) =>
    getModuleInfo(one)?.importedIds.concat(getModuleInfo(one).dynamicallyImportedIds),
  );
  const pathOf = (file) => relative(folder, file).split(sep).join('/');
  const isPeer = (one) => isExternal(one) && !one.startsWith('node:');
  if (reached.some((one) => isPeer(one) || (!isExternal(one) && PER_FORMAT.test(pathOf(one))))) return undefined;
  const entries = reach([id], (one) => getModuleInfo(one).importers).filter((one) => getModuleInfo(one).isEntry);
  if (entries.length > 2) return `${CORE}/common`;
  const names = entries.map((one) => nameOf(pathOf(one)));
  return `${CORE}/${names.sort().join('-')}`;
}

/** `transports/kafka/index.js`: `kafka`. */
function nameOf(entry) {
  return posix.basename(posix.dirname(`main/${entry}`));
}

function reach(ids, next) {
  const reached = new Set(ids);
  for (const id of reached) for (const one of next(id) ?? []) reached.add(one);
  return [...reached];
}

/** ES modules import the core of dist/cjs: one copy of it in the package, and in a process that has both formats. */
const coreFromCjs = {
  name: 'core-from-cjs',
  generateBundle(_, files) {
    for (const file of Object.values(files)) {
      if (file.fileName.startsWith(`${CORE}/`)) delete files[file.fileName];
      else file.code = importCore(file);
    }
  },
};

/** Beside each file of the core, its names. */
const coreNames = {
  name: 'core-names',
  generateBundle(_, files) {
    for (const { fileName, exports } of Object.values(files)) {
      if (!fileName.startsWith(`${CORE}/`)) continue;
      const names = exports.map((name) => `exports.${name} = core.${name};\n`);
      const source = `'use strict';\n\nconst core = require('./${posix.basename(fileName)}');\n\n${names.join('')}`;
      this.emitFile({ type: 'asset', fileName: namesOf(fileName), source });
    }
  },
};

/** What Node reads for the names of a CommonJS module, before it loads it: of a long one that takes longer than to load it. */
function namesOf(core) {
  return core.replace(/\.js$/, '.names.js');
}

function importCore({ code, fileName, imports }) {
  const folder = posix.dirname(fileName);
  const path = (to) => posix.relative(folder, to).replace(/^(?!\.)/, './');
  return imports
    .filter((imported) => imported.startsWith(`${CORE}/`))
    .reduce((text, core) => {
      const replaced = text
        .replace(`import '${path(core)}';\n`, '') // of which it uses nothing
        .replaceAll(`from '${path(core)}';\n`, `from '${path(posix.join('..', 'cjs', namesOf(core)))}';\n`);
      if (replaced === text) throw new Error(`${fileName} does not import ${core}`);
      return replaced;
    }, code);
}
