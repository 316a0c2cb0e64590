import { Injectable } from '@nestjs/common';
import { inProcess, OnOutboxEvent, OutboxModule, OutboxService, type OutboxMessage } from '../../lib/index.js';
import { Idempotent, InboxModule, InboxService } from '../../lib/inbox/index.js';
import { describeDataLayerContract, type DataLayerHarness } from 'nestjs-outbox/testing';
import { build, OrderPlaced, quiet } from '../nest/support/app.js';
import { until } from './until.js';

/** Its contract, and a relay in a whole application. */
export function describeDataLayer<Tx extends object>(name: string, harness: DataLayerHarness<Tx>): void {
  describeDataLayerContract(name, harness);
  describeRelay(name, harness);
}

function describeRelay<Tx extends object>(name: string, harness: DataLayerHarness<Tx>): void {
  describe(`data layer relay: ${name}`, () => {
    beforeAll(() => harness.start?.());
    afterAll(() => harness.stop?.());

    it('publishes what was committed, and nothing else, to a handler whose effect happens once', async () => {
      const opened = await harness.open(3);
      const { dataLayer } = opened;
      @Injectable()
      class Stock {
        readonly deliveries: string[] = [];
        constructor(readonly inbox: InboxService) {}

        @OnOutboxEvent(OrderPlaced)
        @Idempotent()
        async reserve({ total }: OrderPlaced, { id }: OutboxMessage): Promise<void> {
          this.deliveries.push(id);
          await opened.insert(this.inbox.tx as Tx, total + 100);
          if (this.deliveries.length === 1) throw new Error('not yet');
        }
      }
      const outboxOf = OutboxModule.forRoot(quiet({ dataLayer, transports: { default: inProcess() } }));
      const inboxOf = InboxModule.forRoot();
      const app = await build([outboxOf, inboxOf], [Stock]).compile();
      await app.init();
      const outbox = app.get(OutboxService);
      const place = (row: number) => async (tx: Tx) => {
        await opened.insert(tx, row);
        await outbox.with(tx as never).enqueue(new OrderPlaced('one', row));
      };
      await expect(
        opened.transaction(async (tx) => {
          await place(1)(tx);
          throw new Error('rolled back');
        }),
      ).rejects.toThrow('rolled back');
      await opened.transaction(place(2));
      await opened.transaction(place(3));
      await until(async () => (await opened.rows()).includes(103));
      expect([...(await opened.rows())].sort()).toEqual([102, 103, 2, 3]);
      expect(app.get(Stock).deliveries).toHaveLength(3); // the first one twice
      await app.close();
      await opened.close();
    });
  });
}
