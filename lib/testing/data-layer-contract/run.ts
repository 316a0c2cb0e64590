import assert from 'node:assert/strict';
import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { NestFactory } from '@nestjs/core';
import { OutboxDispatcher, OutboxModule, OutboxService } from '../../index.js';
import { RecordingTransport } from '../recording-transport.js';
import { Idempotent, InboxModule, InboxService, type OnceOutcome } from '../../inbox/index.js';
import type { DataLayerHarness, OpenedDataLayer } from './harness.js';

/** An application with an outbox: each of its rows is committed with a message, which has the row's id for its payload. */
export interface Application<Tx extends object> extends OpenedDataLayer<Tx> {
  readonly outbox: Pick<OutboxService, 'enqueueOutsideTransaction'> & {
    enqueue(message: object, options?: { tx?: Tx }): Promise<string>;
    with(tx: Tx): { enqueue(message: object): Promise<string> };
    transaction<T>(work: (tx: Tx) => Promise<T>, options?: object): Promise<T>;
    bind<T>(tx: Tx, work: () => T): T;
  };
  readonly inbox: {
    readonly tx: Tx;
    once<T>(message: string | object, work: (tx: Tx) => T | Promise<T>): Promise<OnceOutcome<T>>;
    once<T>(
      message: string | object,
      options: { tx?: Tx; onConcurrent?: 'wait' | 'refuse'; latest?: number },
      work: (tx: Tx) => T | Promise<T>,
    ): Promise<OnceOutcome<T>>;
  };
  /** Calls a handler that has `@Idempotent()`. */
  handle(message: object, effect: () => Promise<unknown>): Promise<void>;
  /** Runs it as another delivery: not in the transaction around this call. */
  apart<T>(work: () => T): T;
  /** Ids of messages that were told of as committed. */
  readonly told: string[];
  /** Emits `enqueued` for each. */
  readonly events: EventEmitter;
  /** The row, and its message. @returns the message's id */
  write(tx: Tx, row: number): Promise<string>;
  /** What a relay publishes of everything that is there. */
  published(): Promise<readonly unknown[]>;
}

class Handler {
  @Idempotent()
  async handle(_message: object, effect: () => Promise<unknown>): Promise<void> {
    await effect();
  }
}
const APART = new AsyncResource('another delivery');

/** Milliseconds. */
export const PATIENCE = 60_000;

export const messageOf = (row: number): { type: string; payload: unknown } => ({ type: 'contract.row', payload: row });

/** One suite run: what it opens is closed at its end. */
export class DataLayerRun<Tx extends object> {
  private readonly toClose: (() => Promise<void>)[] = [];
  private lastRow = 0;

  constructor(readonly harness: DataLayerHarness<Tx>) {}

  /** A row that no other test writes. */
  row(): number {
    this.lastRow += 1;
    return this.lastRow;
  }

  async open(connections: number): Promise<Application<Tx>> {
    const opened = await this.harness.open(connections);
    this.toClose.push(() => opened.close());
    const transport = new RecordingTransport();
    const outboxModule = OutboxModule.forRoot({
      dataLayer: opened.dataLayer,
      transports: { default: transport },
      relay: 'manual',
      database: { setup: 'create' },
      logLevel: 'silent',
    });
    const imports = [outboxModule, InboxModule.forRoot()];
    const declared = { module: class ContractModule {}, imports, providers: [Handler] };
    const app = await NestFactory.createApplicationContext(declared, { logger: false, abortOnError: false });
    this.toClose.push(() => app.close());
    const outbox = app.get(OutboxService) as unknown as Application<Tx>['outbox'] & OutboxService;
    const told: string[] = [];
    const events = new EventEmitter();
    outbox.events.on('enqueued', ({ ids }) => {
      told.push(...ids);
      events.emit('enqueued');
    });
    return Object.assign(Object.create(opened) as OpenedDataLayer<Tx>, {
      outbox,
      apart: <T>(work: () => T) => APART.runInAsyncScope(work),
      handle: (message: object, effect: () => Promise<unknown>) => app.get(Handler).handle(message, effect),
      inbox: app.get(InboxService) as unknown as Application<Tx>['inbox'],
      told,
      events,
      async write(tx: Tx, row: number): Promise<string> {
        await opened.insert(tx, row);
        return outbox.enqueue(messageOf(row), { tx });
      },
      async published(): Promise<readonly unknown[]> {
        await app.get(OutboxDispatcher).runOnce();
        return transport.published.map(({ payload }) => payload && JSON.parse(new TextDecoder().decode(payload)));
      },
    });
  }

  /** Of these rows, those that are committed, each with one message: no ghost, and none lost. */
  async assertOnly(
    application: Application<Tx>,
    among: readonly number[],
    committed: readonly number[],
  ): Promise<void> {
    const outcome = await this.outcome(application, among);
    assert.deepEqual(outcome, { rows: [...committed], messages: [...committed] });
  }

  /** A relay may pass over a number for a while whose transaction was rolled back: as many messages as rows are waited for. */
  async outcome(
    application: Application<Tx>,
    among: readonly number[],
    least?: number,
  ): Promise<{ rows: number[]; messages: number[] }> {
    const rows = (await application.rows()).filter((row) => among.includes(row)).sort(byNumber);
    const until = performance.now() + PATIENCE;
    for (;;) {
      const messages = ((await application.published()) as number[]).filter((row) => among.includes(row));
      if (messages.length >= (least ?? rows.length) || performance.now() > until)
        return { rows, messages: messages.sort(byNumber) };
    }
  }

  async close(): Promise<void> {
    for (const close of this.toClose.reverse()) await close();
    await this.harness.stop?.();
  }
}

const byNumber = (one: number, other: number): number => one - other;
