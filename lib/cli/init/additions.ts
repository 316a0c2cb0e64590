import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type * as TypeScript from 'typescript';
import type { Application } from './application.js';
import { Edits, indentOf, type Change } from './edits.js';

/** What `init` writes for a transport: names by what they are imported from; `client` is needed beside the package. */
export interface TransportText {
  readonly imports: Readonly<Record<string, string>>;
  readonly call: string;
  readonly client?: string;
}
export const TRANSPORTS: Readonly<Record<string, TransportText>> = {
  'in-process': { imports: { 'nestjs-outbox': 'OutboxModule, inProcess' }, call: 'inProcess()' },
  rabbitmq: {
    imports: { 'nestjs-outbox': 'OutboxModule', 'nestjs-outbox/rabbitmq': 'rabbitmq' },
    call: `rabbitmq({ url: process.env['RABBITMQ_URL'] ?? 'amqp://localhost', exchange: 'outbox' })`,
    client: 'amqplib',
  },
  kafka: {
    imports: { 'nestjs-outbox': 'OutboxModule', 'nestjs-outbox/kafka': 'kafka' },
    call: `kafka({ client: { brokers: [process.env['KAFKA_BROKER'] ?? 'localhost:9092'] } })`,
    client: 'kafkajs',
  },
};

/** Migrations, module, example and a stop in order: each where it is not there yet. Nothing is written. */
export function planInit(app: Application, transport: TransportText, withExample: boolean): Change[] {
  const edits = new Edits(app);
  const created: Change[] = [];
  const creation = app.creation();
  if (!app.imports('outboxMigrations'))
    for (const options of app.dataSources()) {
      edits.appendTo(options, 'migrations', '...outboxMigrations()');
      edits.import(options.getSourceFile(), 'nestjs-outbox/typeorm', 'outboxMigrations');
    }
  if (!app.imports('OutboxModule')) {
    const module = app.rootModule(creation);
    edits.appendTo(module, 'imports', `OutboxModule.forRoot({ transports: { default: ${transport.call} } })`);
    for (const [from, names] of Object.entries(transport.imports)) edits.import(module.getSourceFile(), from, names);
    if (withExample && transport.client === undefined) created.push(addExample(app, edits, module));
  }
  stopInOrder(app, edits, creation);
  return [...edits.changes(), ...created];
}

function addExample(app: Application, edits: Edits, module: TypeScript.ObjectLiteralExpression): Change {
  const file = module.getSourceFile();
  const path = join(dirname(file.fileName), 'outbox-example.ts');
  if (existsSync(path)) app.refuse(file, 'beside this file outbox-example.ts is there already. Give --no-example.');
  // As the entry, which imports the module, ends such names: `.js`, `.ts` or nothing.
  const [, end = ''] = /['"]\.\.?\/[^'"]*?(\.[jt]s)?['"]/.exec(app.entry.text) ?? [];
  edits.import(file, `./outbox-example${end}`, 'OutboxExample');
  edits.appendTo(module, 'providers', 'OutboxExample');
  return { path, after: EXAMPLE };
}

/** With the hooks a signal stops the relay, without them it is a crash. A client that stays connected would hold up the stop. */
function stopInOrder(app: Application, edits: Edits, creation: TypeScript.CallExpression): void {
  const { ts, entry } = app;
  const last = creation.arguments.at(-1) as TypeScript.Expression;
  const isHttp = creation.expression.getText() === 'NestFactory.create';
  if (isHttp && !app.mentions('forceCloseConnections')) {
    if (ts.isObjectLiteralExpression(last)) edits.append(last, 'forceCloseConnections: true');
    else if (creation.arguments.length === 1 || ts.isNewExpression(last))
      edits.insert(entry, last.end, ', { forceCloseConnections: true }');
  }
  if (app.mentions('enableShutdownHooks')) return;
  const statement = ts.findAncestor(creation, ts.isStatement) as TypeScript.Statement;
  const [made] = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [];
  if (made === undefined || !ts.isIdentifier(made.name))
    return app.refuse(creation, 'the application has no name here. Call enableShutdownHooks() on it first.');
  edits.insert(entry, statement.end, `\n${indentOf(statement)}${made.name.text}.enableShutdownHooks();`);
}

/** An event, the transaction that it is written in, and the handler that hears of it. */
const EXAMPLE = `import { DataSource } from 'typeorm';
import { Injectable, Logger, OnApplicationBootstrap } from '@nestjs/common';
import { OnOutboxEvent, OutboxEvent, OutboxService } from 'nestjs-outbox';

@OutboxEvent<ExampleHappened>({ type: 'example.happened', topic: 'outbox-example', key: (event) => event.id })
export class ExampleHappened {
  constructor(readonly id: string) {}
}

/** Each start sends one message, so that you see it go through. Delete the file when you have events of your own. */
@Injectable()
export class OutboxExample implements OnApplicationBootstrap {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService,
  ) {}

  /** What you write with this manager and the message: both, or neither. */
  async onApplicationBootstrap(): Promise<void> {
    await this.dataSource.transaction((manager) => this.outbox.enqueue(new ExampleHappened('hello'), { manager }));
  }

  /** At least once for each message, and again until it returns. */
  @OnOutboxEvent(ExampleHappened)
  hear(event: ExampleHappened): void {
    new Logger(OutboxExample.name).log(\`heard of \${event.id}\`);
  }
}
`;
