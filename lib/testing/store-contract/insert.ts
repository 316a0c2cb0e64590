import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { NewMessage } from '../../outbox-message.js';
import { idsOf, type StoreRun } from './harness.js';

export function describeInsert(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('insert', () => {
    describeFields(run);
    it('writes nothing when the transaction rolls back', async () => {
      const owned = await run.owned();
      const transaction = await run.harness.begin();
      await run.store.writer.insert(transaction.tx, [owned.message(), owned.message({ delay: 0 })]);
      await transaction.rollback();
      assert.deepEqual(await owned.readyIds(), []);
      assert.deepEqual((await owned.due()).rows, []);
    });

    it('takes more messages than one statement has parameters for', async () => {
      const owned = await run.owned();
      const messages = Array.from({ length: 7_000 }, (_, i) =>
        owned.message({ bucket: i % 2, payload: Buffer.from(String(i)) }),
      );
      await run.committed((tx) => run.store.writer.insert(tx, messages));
      const ready = await owned.ready();
      assert.equal(ready.length, 7_000);
      assert.deepEqual(new Set(ready.map(({ id }) => id)), new Set(messages.map(({ id }) => id)));
    });

    it('keeps numbers exact beyond 2^53', async () => {
      const owned = await run.owned();
      await run.harness.setNextSeq('9007199254740990');
      const ids = await owned.insert({}, {}, {}, {}, {});
      const ready = await owned.ready();
      assert.deepEqual(idsOf(ready), ids);
      const seqs = ready.map(({ seq }) => seq);
      assert.deepEqual(seqs, [
        '9007199254740990',
        '9007199254740991',
        '9007199254740992',
        '9007199254740993',
        '9007199254740994',
      ]);
      const page = await owned.read([{ bucket: 1, after: '9007199254740992' }]);
      assert.deepEqual(idsOf(page.messages), ids.slice(3));
      assert.equal((await owned.settle(ready.slice(3, 4))).affected, 1);
      assert.deepEqual(await owned.readyIds(), [ids[0], ids[1], ids[2], ids[4]]);
    });
  });
  describeDedup(run);
}

function describeFields(run: StoreRun): void {
  const { it } = run.runner;
  const contents: [string, Partial<NewMessage>][] = [
    [
      'every field',
      {
        key: 'ключ 💥 ',
        topic: 'тема',
        type: 'a.b',
        version: 7,
        contentType: 'text/plain',
        headers: '{"a":"\\u0000"}',
        options: '{"kafka":{}}',
        payload: Buffer.from('ü "\\ {1,2}'),
      },
    ],
    // As many bytes as `enqueue` takes, and six times as many in JSON.
    ['the longest headers', { headers: JSON.stringify({ h: '\u0001'.repeat(64 * 1024 - 1) }) }],
    ['no key, no headers', { key: null }],
    ['a tombstone', { payload: null }],
    ['an empty payload', { payload: Buffer.alloc(0) }],
    ['a payload with NUL', { payload: Buffer.from([0, 0x61, 0]) }],
    ['a payload that is no text', { payload: Buffer.from([0xff, 0xfe, 0x80]) }],
  ];
  for (const [name, fields] of contents) {
    it(`returns what was enqueued: ${name}`, async () => {
      const owned = await run.owned();
      const message = owned.message(fields);
      await run.committed((tx) =>
        run.store.writer.insert(tx, [owned.message({ payload: Buffer.from('text') }), message]),
      );
      const found = (await owned.ready()).find(({ id }) => id === message.id);
      assert.ok(found);
      const { topic, key, type, version, contentType } = message;
      assert.deepEqual(
        {
          topic: found.topic,
          key: found.key,
          type: found.type,
          version: found.version,
          contentType: found.contentType,
        },
        { topic, key, type, version, contentType },
      );
      assert.deepEqual([found.headersJson, found.optionsJson], [message.headers, message.options]);
      assert.deepEqual(found.payload, message.payload === null ? null : Buffer.from(message.payload));
      assert.deepEqual([found.attempts, found.parkedId, found.parkedState], [0, null, null]);
      assert.ok(Math.abs(found.createdAt.getTime() - Date.now()) < 600_000, found.createdText);
      await owned.park([found]);
      const [taken] = (await owned.take()).messages.filter(({ id }) => id === message.id);
      assert.deepEqual(taken?.payload, found.payload);
      assert.equal(taken?.createdText, found.createdText);
    });
  }
}

function describeDedup(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('dedup keys', () => {
    it('leaves out what was enqueued before, and the transaction stays usable', async () => {
      const owned = await run.owned();
      const dedupKey = randomUUID();
      const [first] = await owned.insert({ dedupKey });
      const again = owned.message({ dedupKey });
      const unrelated = owned.message();
      const report = await run.committed((tx) => run.store.writer.insert(tx, [again, unrelated]));
      assert.deepEqual([...report.duplicates], [[0, first]]);
      assert.deepEqual(await owned.readyIds(), [first, unrelated.id]);
    });

    it('is exact: case, accents and trailing spaces count', async () => {
      const owned = await run.owned();
      const key = randomUUID();
      const ids = await owned.insert(
        { dedupKey: `${key}a` },
        { dedupKey: `${key}A` },
        { dedupKey: `${key}a ` },
        { dedupKey: `${key}á` },
      );
      assert.equal((await owned.readyIds()).length, ids.length);
    });

    it('finds the same id again, duplicates within one call, and one message for several transports', async () => {
      const [owned, second] = [await run.owned(), await run.owned()];
      const dedupKey = randomUUID();
      const message = owned.message({ dedupKey, delay: 60_000 });
      const twin = { ...message, transport: second.transport };
      const report = await run.committed((tx) =>
        run.store.writer.insert(tx, [message, twin, owned.message({ dedupKey })]),
      );
      assert.deepEqual([...report.duplicates], [[2, message.id]]);
      assert.equal((await owned.due()).nextIn !== null && (await second.due()).nextIn !== null, true);
      const repeated = await run.committed((tx) => run.store.writer.insert(tx, [message, twin]));
      assert.deepEqual(
        [...repeated.duplicates],
        [
          [0, message.id],
          [1, message.id],
        ],
      );
    });

    it('waits for a transaction that holds the key, and takes it over when that one rolls back', async () => {
      const owned = await run.owned();
      for (const end of ['commit', 'rollback'] as const) {
        const dedupKey = randomUUID();
        const first = owned.message({ dedupKey });
        const holder = await run.harness.begin();
        await run.store.writer.insert(holder.tx, [first]);
        const waiting = run.committed((tx) => run.store.writer.insert(tx, [owned.message({ dedupKey })]));
        await holder[end]();
        assert.deepEqual([...(await waiting).duplicates], end === 'commit' ? [[0, first.id]] : []);
      }
    });
  });
}
