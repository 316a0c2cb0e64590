// How heavy the house is: prints each figure beside its ceiling. Exit code 1 when a figure is above its ceiling.
//   node tools/weight.mjs            the figures, the ceilings of tools/weight.json, and the goals
//   node tools/weight.mjs --update   lowers ceilings to the figures; it raises none
//   node tools/weight.mjs --list <part of a figure's name>   what was counted, where that has names
// Lines are lines of files: blanks and comments count. What runs for each message is measured by test/nest/path.spec.ts, on a database
// and a broker: `OUTBOX_PATH=1 npm test -- test/nest/path.spec.ts` prints the files.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const CEILINGS = join(root, 'tools/weight.json');
const CORE = /^lib\/(?:enqueue|transaction|message|time|options|store|relay|clean|nest|observe)\//;
/** Data layers beside TypeORM's, which is the oldest, and what they share: each has a ceiling of its own. So have their tests. */
const LAYERS = /^lib\/(?:data-layers\/(?!typeorm\/)|testing\/data-layer-contract\/)/;
const SHARED = /^lib\/data-layers\/(?:drivers|library)\//;
/** What makes, upgrades and drops tables through any of them, and writes it for each migrator. */
const TABLES = /^lib\/data-layers\/tables\//;
const LAYER = /^lib\/data-layers\/(?!typeorm\/|drivers\/|library\/|tables\/)[\w-]+\/.*\.ts$/;
/** Brokers beside Kafka and RabbitMQ, and what they share, `session`: an application has one of them. */
const SESSIONS = readdirSync(join(root, 'lib/transports')).filter((name) =>
  existsSync(join(root, 'lib/transports', name, 'session.ts')),
);
const NAMES = SESSIONS.filter((name) => name !== 'session').join('|');
const BROKERS = new RegExp(`^lib/transports/(?:${SESSIONS.join('|')})/`);
/** The consumer's side, which an application may do without: so it has one, too. */
const INBOX = /^lib\/inbox\//;
/** Idioms of Nest, which an application has or has not. */
const IDIOMS = /^lib\/(?:cqrs|event-emitter|observable)\//;
/** What an application may do with the content of its messages: checks, older versions, compression. */
const PAYLOADS = /^lib\/payloads\//;
const TESTS_OF_LEAVES = new RegExp(
  `^test/(?:(?:nest|unit|integration|processes)/(?:inbox|idioms|payloads|${NAMES}|session)|contract/transport-(?:${NAMES})|(?:support|chaos/\\w+)/[\\w-]*(?:${NAMES})|chaos/processes/(?:layer|inbox)|contract/data-layer|integration/data-layers/|support/(?:data-layer|prisma)|package/(?:without-typeorm|fixtures/src/subpaths)|types/payloads)`,
);
/** What a user imports too: a test that does so does not reach into the house. */
const ENTRIES = Object.values(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).exports)
  .map((targets) => targets.import?.default.replace('./dist/esm/', 'lib/'))
  .filter((file) => file !== undefined);

const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'lib', 'test', 'docs', '*.md'],
  {
    cwd: root,
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((file) => file !== '' && existsSync(join(root, file)));
const text = (file) => readFileSync(join(root, file), 'utf8');
const lines = (all) => sum(all, (file) => text(file).split('\n').length - 1);
const words = (all) =>
  sum(
    all,
    (file) =>
      text(file)
        .split(/\s+/)
        .filter((word) => word !== '').length,
  );
const sum = (all, of) => all.reduce((total, each) => total + of(each), 0);
const within = (pattern) => files.filter((file) => pattern.test(file));

const sources = within(/^lib\/.*\.ts$/);
const trees = new Map(
  sources.map((file) => [file, ts.createSourceFile(file, text(file), ts.ScriptTarget.Latest, true)]),
);

/** Methods of the store's roles, also those that a store may leave out. */
function storeMethods() {
  const found = new Set();
  for (const [file, tree] of trees) {
    if (!/^lib\/store\/(?!mysql|postgres)/.test(file)) continue;
    ts.forEachChild(tree, (node) => {
      if (!ts.isInterfaceDeclaration(node) || !ROLE.test(node.name.text)) return;
      for (const member of node.members) {
        if (ts.isMethodSignature(member)) found.add(`${node.name.text}.${member.name.getText()}`);
      }
    });
  }
  return [...found];
}
const ROLE = /Store$|^StoreSetup$|^MessageWriter$/;

/** Objects that give themselves to their parts, which can call up then: `new Part(this)`. */
function upward() {
  return visited((node, file) => {
    if (!ts.isNewExpression(node) || !(node.arguments ?? []).some((one) => one.kind === ts.SyntaxKind.ThisKeyword))
      return;
    return `${file}: new ${node.expression.getText()}(this)`;
  });
}

/** Fields of a class that wait for somebody else to fill them: declared as a function that does nothing yet. */
function setFromOutside() {
  return visited((node, file) => {
    if (!ts.isPropertyDeclaration(node)) return;
    const says = ts.getJSDocCommentsAndTags(node).some((one) => /\bSet by\b/.test(one.getText()));
    const { initializer: value, type } = node;
    const isReadonly = node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ReadonlyKeyword);
    const isEmpty = value !== undefined && ts.isArrowFunction(value) && !isReadonly;
    const isHook = value === undefined && type !== undefined && ts.isFunctionTypeNode(type) && !isReadonly;
    return says || isEmpty || isHook ? `${file}: ${node.name.getText()}` : undefined;
  });
}

function visited(of) {
  const found = [];
  for (const [file, tree] of trees) {
    if (!/^lib\/(?:relay|transports|nest|store|enqueue|observe)\//.test(file)) continue;
    const visit = (node) => {
      const one = of(node, file);
      if (one !== undefined) found.push(one);
      ts.forEachChild(node, visit);
    };
    visit(tree);
  }
  return found;
}

const internals = () => sources.flatMap((file) => [...text(file).matchAll(/@internal\b/g)].map(() => file));

/** Imports of a test from a file of lib/ that no user can import. */
function reaches() {
  const tests = within(/^test\/.*\.ts$/).filter((file) => !TESTS_OF_LEAVES.test(file));
  return tests.flatMap((file) =>
    [...text(file).matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)]
      .map(([, path]) => posix.join(posix.dirname(file), path))
      .filter((path) => path.startsWith('lib/') && !ENTRIES.includes(path))
      .map((path) => `${file}: ${path}`),
  );
}

function options() {
  const table = trees.get('lib/options/table.ts').getText();
  return [...table.matchAll(/^ {2}row\('([^']+)'/gm)].map(([, name]) => name);
}

const FIGURES = {
  'lines of the core rooms': { goal: 22_000, of: () => lines(sources.filter((file) => CORE.test(file))) },
  'lines of lib but for data layers and inbox': {
    goal: 40_000,
    of: () =>
      lines(sources.filter((file) => ![LAYERS, BROKERS, INBOX, IDIOMS, PAYLOADS].some((leaf) => leaf.test(file)))),
  },
  'lines of the brokers of one session': {
    goal: 2_500,
    of: () => lines(sources.filter((file) => BROKERS.test(file))),
  },
  'lines of the inbox': { goal: 1_000, of: () => lines(sources.filter((file) => INBOX.test(file))) },
  'lines of the idioms of Nest': { goal: 300, of: () => lines(sources.filter((file) => IDIOMS.test(file))) },
  'lines of payloads': { goal: 300, of: () => lines(sources.filter((file) => PAYLOADS.test(file))) },
  'lines of what data layers share': { goal: 2_000, of: () => lines(sources.filter((file) => SHARED.test(file))) },
  'lines of tables for every data layer': { goal: 330, of: () => lines(sources.filter((file) => TABLES.test(file))) },
  'lines of the longest data layer': {
    goal: 80,
    of: () => Math.max(...sources.filter((file) => LAYER.test(file)).map((file) => lines([file]))),
  },
  'methods of the store': { goal: 45, of: storeMethods },
  'objects that give themselves to their parts': { goal: 0, of: upward },
  'fields set from outside': { goal: 0, of: setFromOutside },
  'members marked @internal': { goal: 100, of: internals },
  'lines of TypeScript in test': {
    goal: 42_000,
    of: () => lines(within(/^test\/.*\.ts$/).filter((file) => !TESTS_OF_LEAVES.test(file))),
  },
  'imports of tests from inside lib': { goal: 300, of: reaches },
  // Neither are docs/requirements: they are the list that the tests are held against.
  'words for users': {
    goal: 40_000,
    of: () =>
      words(
        within(
          new RegExp(
            `^(?:README\\.md|docs/(?!design\\.md|data-layers\\.md|inbox\\.md|nest-idioms\\.md|payloads\\.md|requirements)(?:transports/(?!${NAMES}))?[\\w-]+\\.md)$`,
          ),
        ),
      ),
  },
  // As with lines of data layers: an application reads the page of what it chose.
  'words of the longest page of a leaf': {
    goal: 1_400,
    of: () =>
      Math.max(
        ...within(
          new RegExp(`^docs/(?:data-layers(?:/[\\w-]+)?|inbox|nest-idioms|payloads|transports/(?:${NAMES}))\\.md$`),
        ).map((file) => words([file])),
      ),
  },
  'words for contributors': {
    goal: 20_000,
    of: () => words(within(/^(?:CONTRIBUTING\.md|docs\/design\.md|docs\/internals\/.*\.md)$/)),
  },
  'options of the module': { goal: 40, of: options },
  'lines of `cli init`': { goal: 400, of: () => lines(within(/^lib\/cli\/(?:init\/|commands\/init).*\.ts$/)) },
};

const [command, part = ''] = process.argv.slice(2);
const ceilings = JSON.parse(readFileSync(CEILINGS, 'utf8'));
const known = command === '--list' ? Object.keys(FIGURES).filter((name) => name.includes(part)) : Object.keys(FIGURES);
let isOver = false;
for (const name of known) {
  const { goal, of } = FIGURES[name];
  const counted = of();
  const figure = typeof counted === 'number' ? counted : counted.length;
  if (command === '--list' && typeof counted !== 'number') console.log(counted.join('\n'));
  if (command === '--update') ceilings[name] = Math.min(ceilings[name] ?? figure, figure);
  const ceiling = ceilings[name] ?? 0;
  const over = figure > ceiling;
  isOver ||= over;
  const row = [name.padEnd(46), String(figure).padStart(8), String(ceiling).padStart(10), String(goal).padStart(8)];
  console.log(`${row.join('')}${over ? '   ABOVE ITS CEILING' : ''}`);
}
if (command === '--update') writeFileSync(CEILINGS, `${JSON.stringify(ceilings, null, 2)}\n`);
if (isOver) console.log(`A ceiling of ${relative(root, CEILINGS)} only falls: take away as many as were added.`);
process.exit(isOver ? 1 : 0);
