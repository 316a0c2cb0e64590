import { existsSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type * as TypeScript from 'typescript';
import type { Application } from './application.js';
import { Edits, indentOf, type Change } from './edits.js';

/** What `init` writes for a transport; a client is needed beside the package, and then it has an entry point of its own. */
export type TransportText = readonly [call: string, client?: string];
export const TRANSPORTS: Readonly<Record<string, TransportText>> = {
  'in-process': ['inProcess()'],
  rabbitmq: [`rabbitmq({ url: process.env['RABBITMQ_URL'] ?? 'amqp://localhost', exchange: 'outbox' })`, 'amqplib'],
  kafka: [`kafka({ client: { brokers: [process.env['KAFKA_BROKER'] ?? 'localhost:9092'] } })`, 'kafkajs'],
};

/** Migrations, module, example and a stop in order: each where it is not there yet. Nothing is written. */
export function planInit(app: Application, [call, client]: TransportText, withExample: boolean): Change[] {
  const edits = new Edits(app);
  const created: Change[] = [];
  const creation = app.creation();
  if (app.library === 'typeorm' && !app.imports('outboxMigrations'))
    for (const options of app.dataSources()) {
      edits.appendTo(options, 'migrations', '...outboxMigrations()');
      edits.import(options.getSourceFile(), 'nestjs-outbox/typeorm', 'outboxMigrations');
    }
  if (!app.imports('OutboxModule')) {
    const module = app.rootModule(creation);
    const file = module.getSourceFile();
    const [name = ''] = call.split('(');
    const [made = '', db] = app.library === 'typeorm' ? [] : app.drizzle(module);
    const layer = db === undefined ? '' : `dataLayer: drizzleLayer(${db}), `;
    edits.appendTo(module, 'imports', `OutboxModule.forRoot({ ${layer}transports: { default: ${call} } })`);
    edits.import(file, 'nestjs-outbox', client === undefined ? `OutboxModule, ${name}` : 'OutboxModule');
    if (client !== undefined) edits.import(file, `nestjs-outbox/${name}`, name);
    if (db !== undefined) edits.import(file, 'nestjs-outbox/drizzle', 'drizzleLayer');
    if (db !== undefined) edits.import(file, beside(app, file, made), db);
    if (withExample && client === undefined) {
      const path = join(dirname(file.fileName), 'outbox-example.ts');
      if (existsSync(path)) app.refuse(file, 'beside this file outbox-example.ts is there already. Give --no-example.');
      edits.import(file, beside(app, file, path), 'OutboxExample');
      edits.appendTo(module, 'providers', 'OutboxExample');
      created.push({ path, after: EXAMPLE });
    }
  }
  stopInOrder(app, edits, creation);
  return [...edits.changes(), ...created];
}

/** What a file imports another one by. It ends as in the entry, which imports the module: `.js`, `.ts` or nothing. */
function beside(app: Application, { fileName }: TypeScript.SourceFile, other: string): string {
  const [, end = ''] = /['"]\.\.?\/[^'"]*?(\.[jt]s)?['"]/.exec(app.entry.text) ?? [];
  return `./${relative(dirname(fileName), other).replaceAll('\\', '/').replace(/\.ts$/, end)}`;
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
const EXAMPLE = `import { Injectable, Logger, OnApplicationBootstrap } from '@nestjs/common';
import { OnOutboxEvent, OutboxService } from 'nestjs-outbox';

/** Each start sends one message, so that you see it go through. Delete the file when you have events of your own. */
@Injectable()
export class OutboxExample implements OnApplicationBootstrap {
  constructor(private readonly outbox: OutboxService) {}

  /** What you write with this tx and the message: both, or neither. */
  async onApplicationBootstrap(): Promise<void> {
    await this.outbox.transaction((tx) => this.outbox.enqueue({ type: 'example', payload: 'hello' }, { tx }));
  }

  /** At least once for each message, and again until it returns. */
  @OnOutboxEvent({ type: 'example' })
  hear(what: string): void {
    new Logger(OutboxExample.name).log(\`heard of \${what}\`);
  }
}
`;
