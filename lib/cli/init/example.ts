import { EXAMPLE_TOPIC, type TransportText } from './transport.js';

export const EXAMPLE_CLASS = 'OutboxExample';
export const EXAMPLE_FILE = 'outbox-example';

/** An event, the transaction that it is written in, and with handlers in the process the one that hears of it. */
export function exampleText({ name }: TransportText, { quote, end }: { quote: string; end: string }): string {
  const isHandled = name === 'inProcess';
  const text = [
    `import { Injectable, ${isHandled ? 'Logger, ' : ''}OnApplicationBootstrap } from '@nestjs/common';`,
    `import { ${isHandled ? 'OnOutboxEvent, ' : ''}OutboxEvent, OutboxService } from 'nestjs-outbox';`,
    `import { DataSource } from 'typeorm';`,
    '',
    `@OutboxEvent<ExampleHappened>({ type: 'example.happened', topic: '${EXAMPLE_TOPIC}', key: (event) => event.id })`,
    'export class ExampleHappened {',
    '  constructor(readonly id: string) {}',
    '}',
    '',
    '@Injectable()',
    `export class ${EXAMPLE_CLASS} implements OnApplicationBootstrap {`,
    '  constructor(',
    '    private readonly dataSource: DataSource,',
    '    private readonly outbox: OutboxService,',
    '  ) {}',
    '',
    '  /** Each start sends one message, so that you see it go through. Delete it with the example. */',
    '  async onApplicationBootstrap(): Promise<void> {',
    `    await this.happen('hello');`,
    '  }',
    '',
    '  /** What you write with this manager and the message: both, or neither. Gives the id of the message. */',
    '  async happen(id: string): Promise<string> {',
    '    return this.dataSource.transaction(async (manager) => this.outbox.enqueue(new ExampleHappened(id), { manager }));',
    '  }',
    ...(isHandled ? HANDLER : []),
    '}',
    '',
  ].join('\n');
  // The text has no quote and no semicolon but those of its code.
  return text.replaceAll(`'`, quote).replaceAll(/;$/gm, end);
}

const HANDLER = [
  '',
  '  /** At least once for each message, and again until it returns. */',
  '  @OnOutboxEvent(ExampleHappened)',
  '  hear(event: ExampleHappened): void {',
  `    new Logger(${EXAMPLE_CLASS}.name).log(\`heard of \${event.id}\`);`,
  '  }',
];
