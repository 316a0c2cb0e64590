import { Kafka } from 'kafkajs';
import { contractMessage, publish, expectAllOk } from '../../support/publish.js';
import { kafkaConfig, kafkaTransports, messages, TestTopics, text, type ReadRecord } from '../../support/kafka.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

describeWith('kafka', 'kafka() refuses and commits', () => {
  const { topics, open } = kafkaTransports();

  describe('refusals', () => {
    it('a message that is too large is dead at once, its neighbours are published', async () => {
      const topic = await topics.create(1);
      const batch = [
        contractMessage({ topic, key: 'a' }),
        contractMessage({ topic, key: 'big', payload: Buffer.alloc(3_000_000) }),
        contractMessage({ topic, key: 'big' }),
        contractMessage({ topic, key: 'c' }),
      ];
      const results = await publish(await open(), batch);
      expect(results.map((r) => (r.ok ? 'ok' : `${r.blame}${r.final ? ' final' : ''}`))).toEqual([
        'ok',
        'message final',
        'collateral',
        'ok',
      ]);
      expect((await topics.read(topic, 2)).map(({ key }) => text(key))).toEqual(['a', 'c']);
    });

    it.each([
      ['a configuration', () => kafkaConfig()],
      ['a Kafka object', () => new Kafka(kafkaConfig())],
    ])(
      'a request that is refused in part: what was stored is published, and not sent again (%s)',
      async (_, client) => {
        const [topic, small] = [await topics.create(4), await topics.create(1, { 'max.message.bytes': '1000' })];
        const batch = [
          ...messages(topic, 20),
          contractMessage({ topic: small, key: 'big', payload: 'x'.repeat(2000) }),
          contractMessage({ topic: small, key: 'small' }),
        ];
        const results = await publish(await open({ client: client() }), batch);
        expect(results.map((r) => (r.ok ? 'ok' : r.blame))).toEqual([
          ...Array.from({ length: 20 }, () => 'ok'),
          'collateral',
          'collateral',
        ]);
        expect([await topics.total(topic), await topics.total(small)]).toEqual([20, 0]);
      },
    );

    it('R5: a topic that does not exist is away, and no topic is made', async () => {
      const [known, unknown] = [await topics.create(), TestTopics.name()];
      const transport = await open();
      const alone = await publish(transport, messages(unknown, 3));
      expect(alone.map((r) => !r.ok && [r.blame, r.final, (r.error as Error).message])).toEqual(
        [0, 1, 2].map(() => [
          'transport',
          undefined,
          `There is no topic '${unknown}' (UNKNOWN_TOPIC_OR_PARTITION). Create it, for example: kafka-topics.sh --create --topic ${unknown}.`,
        ]),
      );
      const mixed = await publish(transport, [...messages(known, 1), ...messages(unknown, 1)]);
      expect(mixed.map((r) => r.ok || r.blame)).toEqual([true, 'transport']);
      expectAllOk(await publish(transport, messages(known, 1)));
      expect(await topics.exists(unknown)).toBe(false);
    });

    it.each([
      ['of one configuration', () => kafkaConfig()],
      ['of a Kafka object', () => new Kafka(kafkaConfig())],
    ])('C10: a topic that is deleted is no failure of messages to others (%s)', async (_, client) => {
      const [known, gone, fresh] = [await topics.create(), await topics.create(), await topics.create()];
      // Each send asks about all topics again.
      const transport = await open({ client: client(), producers: 1, producer: { metadataMaxAge: 1 } });
      expectAllOk(await publish(transport, [...messages(known, 1), ...messages(gone, 1)]));
      await topics.remove(gone);
      expectAllOk(await publish(transport, messages(known, 1)));
      expectAllOk(await publish(transport, messages(fresh, 1)));
      expect(await publish(transport, messages(gone, 1))).toMatchObject([{ ok: false, certain: true }]);
      expectAllOk(await publish(transport, messages(known, 1)));
      await topics.create(1, {}, gone);
      expectAllOk(await publish(transport, messages(gone, 1)));
    });

    it.each([1, 2])('C10: a topic that is there again is another one for each of %i producers', async (producers) => {
      const [gone, fresh] = [await topics.create(), await topics.create()];
      const transport = await open({ producers });
      const byAll = () => Promise.all(Array.from({ length: producers }, () => publish(transport, messages(gone, 3))));
      expectAllOk((await byAll()).flat());
      await topics.remove(gone);
      expectAllOk(await publish(transport, messages(fresh, 1))); // one of them asks about both
      await topics.create(1, {}, gone);
      expectAllOk((await byAll()).flat()); // its offsets began anew, by which a producer tells that nothing was stored
      expect(await topics.total(gone)).toBe(3 * producers);
    });

    it('a broker that is not there: nobody’s fault, with its reason and without a payload', async () => {
      const transport = await open({ client: { ...kafkaConfig(), brokers: ['127.0.0.1:1'] } });
      await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toMatchObject({
        code: 'TRANSPORT_UNAVAILABLE',
        message: expect.stringContaining('ECONNREFUSED'),
      });
      expect(transport.health!()).toMatchObject({ up: false, state: 'connecting', detail: 'Kafka: ECONNREFUSED.' });
      const [result] = await publish(transport, [contractMessage({ topic: 't', payload: 'secret' })]);
      expect(result).toMatchObject({
        ok: false,
        blame: 'transport',
        error: { message: expect.stringContaining('ECONNREFUSED') },
      });
      expect(JSON.stringify(result) + String((result as { error: Error }).error.stack)).not.toContain('secret');
    });
  });

  describe('transactional', () => {
    const transactional = { transactional: { transactionalId: `tx-${TestTopics.name()}` } };
    it('commits what it confirms', async () => {
      const topic = await topics.create(3);
      const transport = await open(transactional);
      for (let round = 0; round < 3; round += 1) {
        const batch = messages(topic, 30, (n) => ({ payload: `${round}-${n}` }));
        // While the marks of the one before are not written, a new transaction is nobody's fault.
        await until(async () => {
          const results = await publish(transport, batch);
          if (results.every((result) => !result.ok && result.blame === 'transport')) return false;
          expectAllOk(results);
          return true;
        });
      }
      const records = await topics.read(topic, 90, { readUncommitted: false });
      expect(new Set(records.map(({ value }) => text(value))).size).toBe(90);
    });

    it('aborts a request that fails in part, and goes on', async () => {
      const topic = await topics.create(2);
      const small = await topics.create(1, { 'max.message.bytes': '1000' });
      const transport = await open(transactional);
      const [good, bad] = [
        contractMessage({ topic, key: 'a', payload: 'aborted' }),
        contractMessage({ topic: small, key: 'b', payload: 'x'.repeat(2000) }),
      ];
      expect((await publish(transport, [good, bad])).map((r) => !r.ok && r.blame)).toEqual([
        'collateral',
        'collateral',
      ]);
      expect(await publish(transport, [bad])).toMatchObject([{ blame: 'message', final: true }]);
      expectAllOk(await publish(transport, [contractMessage({ topic, key: 'a', payload: 'committed' })]));
      // Waits for this one record, which a reader of committed data gets only after the aborted one was decided.
      const committed: ReadRecord[] = await topics.read(topic, 1);
      expect(committed.map(({ value }) => text(value))).toEqual(['committed']);
    });
  });
});
