import { setTimeout as pause } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { OutboxMessageError, type TransactionHandle } from '../../../lib/index.js';
import { InboxModule, InboxService } from '../../../lib/inbox/index.js';
import type { Part } from '../part.js';
import { TRANSPORTS } from '../settings.js';
import { given, openLayer, type ChaosDatabase } from './layer.js';

const CONCURRENCY = 8;
const SERIAL = 'create table if not exists effects (transport int not null, uid bigint not null)';

/**
 * What the consumer does with each delivery: a row in its own transaction, with the inbox. A transaction that fails is a message that
 * is delivered again, so that an outage of the database only makes it wait.
 */
export class InboxEffects {
  private readonly all: (readonly [transport: number, uid: number])[] = [];
  /** Of `all`, how many were begun: a list of this length takes long to shift. */
  private begun = 0;
  private open = 0;
  private idle: (() => void) | undefined;

  private constructor(
    private readonly inbox: InboxService,
    private readonly database: ChaosDatabase,
  ) {}

  static async open(): Promise<InboxEffects> {
    const layer = await openLayer(CONCURRENCY);
    const application: INestApplicationContext = await NestFactory.createApplicationContext(
      {
        module: class Consumer {},
        imports: [...layer.imports, InboxModule.forRoot({ ...given(layer), database: { setup: 'create' } })],
      },
      { logger: ['warn', 'error'], abortOnError: false },
    );
    const database = layer.use(application);
    await database.query(SERIAL);
    return new InboxEffects(application.get(InboxService), database);
  }

  handle(transport: number, uid: number): void {
    this.all.push([transport, uid]);
    if (this.open < CONCURRENCY) void this.work();
  }

  /** Writes down what took effect, when all that came was handled. */
  async tell(part: Part): Promise<void> {
    while (this.open > 0) await new Promise<void>((resolve) => (this.idle = resolve));
    for (const [transport] of TRANSPORTS.entries()) {
      const rows = await this.database.query(`select uid from effects where transport = ${transport}`);
      part.add(['f', transport, rows.map(({ uid }) => Number(uid))]);
    }
  }

  private async work(): Promise<void> {
    this.open += 1;
    while (this.begun < this.all.length) await this.untilDone(...this.all[this.begun++]!);
    this.open -= 1;
    if (this.open === 0) this.idle?.();
  }

  private async untilDone(transport: number, uid: number): Promise<void> {
    const consumer = TRANSPORTS[transport] as string;
    for (let isDone = false; !isDone;) {
      const once = (tx: TransactionHandle): Promise<void> =>
        this.inbox
          .once(String(uid), { tx, consumer }, () =>
            this.database.query(`insert into effects values (${transport}, ${uid})`, tx),
          )
          .then(() => undefined);
      isDone = await this.database.transaction(once).then(
        () => true,
        (error: unknown) => {
          if (error instanceof OutboxMessageError) throw error; // whatever the database does
          return pause(100, false);
        },
      );
    }
  }
}
