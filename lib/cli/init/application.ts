import { relative } from 'node:path';
import type * as TypeScript from 'typescript';
import { CliError, EXIT } from '../exit-code.js';

type Node = TypeScript.Node;
type Options = TypeScript.ObjectLiteralExpression;

/** Into a DataSource or a `db` an outbox is inserted. How Prisma connects has to be replaced: its pool must be seen. */
const BY_HAND = {
  typeorm: `add ...outboxMigrations() to migrations of the DataSource, OutboxModule.forRoot({ transports: { default: inProcess() } })`,
  drizzle: `add OutboxModule.forRoot({ dataLayer: drizzleLayer(db), transports: { default: inProcess() } })`,
  prisma: `give the class that extends PrismaClient constructor(readonly pool = new Pool({ connectionString: process.env['DATABASE_URL'] })) { super({ adapter: new PrismaPg(pool) }); }, and add OutboxModule.forRootAsync({ imports: [PrismaModule], inject: [PrismaService], useFactory: (prisma: PrismaService) => ({ dataLayer: prismaLayer(prisma, prisma.pool), transports: { default: inProcess() } }) })`,
};

/** The places of an application that `init` writes to, as most have them. Whatever is unclear is refused. */
export class Application {
  private readonly nodes: readonly Node[];
  readonly library: keyof typeof BY_HAND = 'typeorm';

  constructor(
    readonly ts: typeof TypeScript,
    private readonly root: string,
    program: TypeScript.Program,
    readonly entry: TypeScript.SourceFile,
  ) {
    const [wrong] = program.getSyntacticDiagnostics();
    if (wrong?.file !== undefined) this.refuse(wrong.file, 'the syntax is wrong.', wrong.start);
    this.nodes = program.getSourceFiles().flatMap((file) => this.below(file));
    if (!this.mentions('TypeOrmModule') && this.mentions('drizzle')) this.library = 'drizzle';
    if (!this.mentions('TypeOrmModule') && this.mentions('PrismaClient')) this.library = 'prisma';
  }

  creation(): TypeScript.CallExpression {
    const calls = this.below(this.entry).filter(this.ts.isCallExpression);
    const call = calls.find(({ expression }) => expression.getText().startsWith('NestFactory.create'));
    return call ?? this.refuse(this.entry, 'it has no NestFactory.create(…). Give the file that has it with --entry.');
  }

  /** What `@Module({ … })` of the root module gets. */
  rootModule({ arguments: [given] }: TypeScript.CallExpression): Options {
    const classes = this.nodes.filter(this.ts.isClassDeclaration).filter(({ name }) => name?.text === given?.getText());
    const calls = classes.flatMap((one) => this.below(one)).filter(this.ts.isCallExpression);
    const modules = calls.filter(({ expression }) => expression.getText() === 'Module');
    const [options, second] = modules.flatMap((call) => call.arguments).filter(this.ts.isObjectLiteralExpression);
    if (options !== undefined && second === undefined && this.list(options, 'imports') !== undefined) return options;
    return this.refuse(given ?? this.entry, 'init cannot see which class with @Module({ imports: […] }) this is.');
  }

  /** The options of the DataSource without a name, and those that TypeORM's command line has in a file of its own. */
  dataSources(): Options[] {
    const objects = this.nodes.filter(this.ts.isObjectLiteralExpression);
    const typeOf = (node: Node): string => this.property(node, 'type')?.getText() ?? '';
    const all = objects.filter((one) => /^.(postgres|mysql|mariadb)\b/.test(typeOf(one)));
    const isNamed = (node: Node): boolean => !/^(.default.)?$/.test(this.property(node, 'name')?.getText() ?? '');
    const unnamed = all.filter((one) => this.ts.findAncestor(one, isNamed) === undefined);
    const ofFiles = unnamed.filter((one) => this.mentions('DataSource', one.getSourceFile()));
    const [first, second] = unnamed;
    if (first === undefined || !this.mentions('TypeOrmModule'))
      this.refuse(
        this.entry,
        `the application has no TypeOrmModule with type: 'postgres', 'mysql' or 'mariadb', no Prisma and no Drizzle: docs/data-layers.md has other libraries.`,
      );
    if (second !== undefined && (unnamed.length > 2 || ofFiles.length !== 1))
      this.refuse(second, 'there are several DataSources, and init cannot see which one is meant.');
    const other = objects.find((one) => !all.includes(one) && this.property(one, 'migrations') !== undefined);
    if (other !== undefined) this.refuse(other, 'these migrations do not stand beside the type of the DataSource.');
    return unnamed;
  }

  /** The file that has `export const db = drizzle(…)`, and its name. */
  drizzle(module: Options): readonly [file: string, db: string] {
    const files = this.nodes.filter(this.ts.isSourceFile).filter((file) => file !== module.getSourceFile());
    const all = files.flatMap(({ fileName, text }) =>
      [...text.matchAll(/^export const (\w+)\b.* = drizzle[(<]/gm)].map(([, db = '']) => [fileName, db]),
    );
    const [found, second] = all as [string, string][];
    if (this.library === 'drizzle' && found !== undefined && second === undefined) return found;
    return this.refuse(
      module,
      'init looks for one export const db = drizzle(…) in another file. Prisma it leaves to you.',
    );
  }

  /** A list of the object; `undefined`: it has none. */
  list(options: Options, name: string): TypeScript.ArrayLiteralExpression | undefined {
    const value = this.property(options, name) ?? options.properties.find(this.ts.isSpreadAssignment);
    if (value === undefined || this.ts.isArrayLiteralExpression(value)) return value;
    return this.refuse(value, `init cannot see the list of ${name}. Write it as ${name}: […] here.`);
  }

  private property(object: Node, name: string): Node | undefined {
    if (!this.ts.isObjectLiteralExpression(object)) return undefined;
    const found = object.properties.find((one) => one.name?.getText() === name);
    return found !== undefined && this.ts.isPropertyAssignment(found) ? found.initializer : found;
  }

  /** Whether the name is there, comments apart. */
  mentions(name: string, place?: Node): boolean {
    const nodes = place === undefined ? this.nodes : this.below(place);
    return nodes.some((node) => this.ts.isIdentifier(node) && node.text === name);
  }

  imports(name: string): boolean {
    const imports = this.nodes.filter(this.ts.isImportDeclaration).filter((one) => this.mentions(name, one));
    return imports.some(({ moduleSpecifier }) => /^.nestjs-outbox\b/.test(moduleSpecifier.getText()));
  }

  private below(node: Node): Node[] {
    const children: Node[] = [];
    this.ts.forEachChild(node, (child) => void children.push(...this.below(child)));
    return [node, ...children];
  }

  /** @throws CliError always, before anything is written */
  refuse(node: Node, problem: string, at = node.getStart()): never {
    const file = node.getSourceFile();
    const { line } = file.getLineAndCharacterOfPosition(at);
    const place = `${relative(this.root, file.fileName)}:${line + 1}`;
    const text = `Nothing was changed. By hand, ${BY_HAND[this.library]} to imports of the root module, and app.enableShutdownHooks() to main.ts: docs/${this.library === 'typeorm' ? 'first-steps' : 'data-layers'}.md of the package has the whole text.`;
    throw new CliError(EXIT.failed, `${place}: ${problem} ${text}`);
  }
}
