import { LARGE_PAYLOAD } from '../../message/unread-payload.js';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../outbox-message.js';
import type { OwnedTransport, StoreRun } from './harness.js';

const TEXT = Buffer.from('ä'.repeat(LARGE_PAYLOAD / 2 + 1));
const BYTES = Buffer.alloc(2 * LARGE_PAYLOAD, 0xff);

/** A payload beyond `LARGE_PAYLOAD` stays in the database until somebody asks for it. */
export function describePayloads(run: StoreRun): void {
  const { describe, it } = run.runner;
  const read = async (owned: OwnedTransport, messages: readonly OutboxMessage[]): Promise<(Buffer | undefined)[]> => {
    const payloads = await run.store.ready.readPayloads(owned.transport, messages);
    return payloads.map((payload) => (payload === undefined ? undefined : Buffer.from(payload as string)));
  };
  const unreadOf = (messages: readonly OutboxMessage[]): number[] => messages.map(({ unread }) => unread);

  describe('large payloads', () => {
    it('are left out of a read, which says how large they are', async () => {
      const owned = await run.owned();
      const payloads = [Buffer.from('{}'), Buffer.alloc(LARGE_PAYLOAD, 'a'), TEXT, null, BYTES];
      await owned.insert(...payloads.map((payload) => ({ payload })));
      const messages = await owned.ready();
      assert.deepEqual(unreadOf(messages), [0, 0, TEXT.length, 0, BYTES.length]);
      for (const [index, message] of messages.entries()) {
        assert.equal(message.size, payloads[index]?.length ?? 0);
        if (message.unread > 0) assert.equal(message.body, null);
        else assert.deepEqual(message.payload, payloads[index]);
      }
    });

    it('are read in the order of the question, and missing where the row is gone', async () => {
      const owned = await run.owned();
      await owned.insert({ payload: TEXT }, { payload: BYTES }, { payload: TEXT });
      const [first, second, third] = (await owned.ready()) as [OutboxMessage, OutboxMessage, OutboxMessage];
      await owned.settle([third]);
      const other = { bucket: first.bucket, seq: first.seq, id: randomUUID(), parkedId: null } as OutboxMessage;
      assert.deepEqual(await read(owned, [second, third, other, first]), [BYTES, undefined, undefined, TEXT]);
      assert.deepEqual(await read(owned, []), []);
    });

    it('are read from the parked table too', async () => {
      const owned = await run.owned();
      await owned.insert({ payload: TEXT }, { payload: BYTES, key: 'another' });
      const ready = await owned.ready();
      await owned.park(ready);
      assert.deepEqual(await read(owned, ready), [undefined, undefined]);
      const { messages } = await owned.take();
      assert.deepEqual(unreadOf(messages).sort(), [TEXT.length, BYTES.length].sort());
      const parked = await read(owned, messages);
      for (const [index, { id }] of messages.entries())
        assert.deepEqual(parked[index], id === ready[0]?.id ? TEXT : BYTES);
    });
  });
}
