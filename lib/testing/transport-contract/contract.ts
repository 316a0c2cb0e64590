import assert from 'node:assert/strict';
import type { PublishResult } from '../../transports/transport.js';
import { contractMessage } from './contract-message.js';
import { assertAllOk, ContractRun } from './run.js';
import { probePublish } from './publish-probe.js';
import { describeFaults } from './faults.js';
import { describeContent } from './content.js';
import type { ContractRunner, TransportHarness } from './harness.js';

/**
 * Checks that a transport keeps the contract of `OutboxTransport`: for your own transports, against your own broker.
 * Runs in any runner with `describe`, `it`, `beforeAll` and `afterAll`, as globals or handed over.
 */
export function describeTransportContract(
  name: string,
  harness: TransportHarness,
  runner: ContractRunner = globalThis as unknown as ContractRunner,
): void {
  const { describe, beforeAll, afterAll } = runner;
  describe(`transport contract: ${name}`, () => {
    const run = new ContractRun(harness);
    beforeAll(async () => harness.start?.());
    afterAll(async () => {
      await run.close();
      await harness.stop?.();
    });
    describeResults(run, runner);
    describeContent(run, runner);
    describeFaults(run, runner);
    describeLifecycle(run, runner);
  });
}

function describeResults(run: ContractRun, { it }: ContractRunner): void {
  it('gives every message of a batch one result, and `ok` means that it arrived', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const batch = Array.from({ length: 50 }, (_, n) =>
      contractMessage({ topic, key: `key-${n}`, payload: `{"n":${n}}` }),
    );
    await run.publishAll(transport, batch);
    const received = await run.harness.received?.(topic, batch.length);
    if (received !== undefined) assert.deepEqual(received.map(({ id }) => id).sort(), batch.map(({ id }) => id).sort());
  });

  it('settles an empty batch', async () => {
    assert.deepEqual((await run.publish(await run.connected(), [])).rejection, undefined);
  });

  it('sends the messages of one key in order', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const batch = Array.from({ length: 20 }, (_, n) => contractMessage({ topic, key: 'one', payload: `{"n":${n}}` }));
    if (transport.atomicRuns) await run.publishAll(transport, batch);
    else for (const message of batch) await run.publishAll(transport, [message]);
    await run.assertArrived(
      topic,
      batch.map(({ id }) => id),
    );
  });

  it('takes several batches at once', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const batches = Array.from({ length: 4 }, (_, b) =>
      Array.from({ length: 25 }, (_, n) => contractMessage({ topic, key: `key-${b}-${n}` })),
    );
    for (const outcome of await Promise.all(batches.map((batch) => run.publish(transport, batch))))
      assertAllOk(outcome);
    const received = await run.harness.received?.(topic, 100);
    if (received !== undefined)
      assert.deepEqual(
        received.map(({ id }) => id).sort(),
        batches
          .flat()
          .map(({ id }) => id)
          .sort(),
      );
  });

  if (run.harness.poison !== undefined) {
    const poison = run.harness.poison.bind(run.harness);
    it('blames a refused message, and never its neighbours', async () => {
      const [transport, topic] = [await run.connected(), await run.topic()];
      const good = Array.from({ length: 10 }, (_, n) => contractMessage({ topic, key: `key-${n}` }));
      const bad = contractMessage({ ...(await poison(topic)), key: 'bad' });
      const { results } = await run.publish(transport, [...good.slice(0, 5), bad, ...good.slice(5)]);
      assert.ok(!results[5]!.ok, 'the refused message is not ok');
      for (const result of [...results.slice(0, 5), ...results.slice(6)]) {
        assert.ok(!isBlamed(result), 'a neighbour was blamed');
      }
      const alone = (await run.publish(transport, [bad])).results[0]!;
      assert.ok(isBlamed(alone), `alone, it is to blame, or its destination: ${JSON.stringify(alone)}`);
      for (const message of good) await run.publishAll(transport, [message]);
    });
  }
}

function describeLifecycle(run: ContractRun, { it }: ContractRunner): void {
  it('works again after reset and connect', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const [before, after] = [contractMessage({ topic, key: 'a' }), contractMessage({ topic, key: 'a' })];
    await run.publishAll(transport, [before]);
    await transport.reset?.();
    await transport.connect?.(AbortSignal.timeout(run.timeout));
    await run.publishAll(transport, [after]);
    await run.assertArrived(topic, [before.id, after.id]);
  });

  it('says in health whether it is up', async () => {
    const transport = await run.connected();
    if (transport.health === undefined) return;
    assert.equal(transport.health().up, true);
    await transport.close?.();
    assert.equal(transport.health().up, false);
  });

  it('closes twice, and publishes nothing afterwards', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    await transport.close?.();
    await transport.close?.();
    const outcome = await run.publish(transport, [contractMessage({ topic })], run.faultTimeout);
    if (transport.close === undefined) return;
    const [result] = outcome.results;
    assert.ok(
      result !== undefined && !result.ok && result.blame !== 'message',
      'a closed transport takes nothing and blames nobody',
    );
  });

  it('does not send what was aborted before', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const [aborted, sent] = [contractMessage({ topic, key: 'a' }), contractMessage({ topic, key: 'a' })];
    const outcome = await probePublish(transport, [aborted], { timeout: run.timeout, signal: AbortSignal.abort() });
    assert.ok(!outcome.results[0]!.ok, 'an aborted publish is not ok');
    await transport.reset?.();
    await transport.connect?.(AbortSignal.timeout(run.timeout));
    await run.publishAll(transport, [sent]);
    await run.assertArrived(topic, [sent.id]);
  });
}

/** It, or what it is for: nothing else is concerned. */
const isBlamed = (result: PublishResult): boolean =>
  !result.ok && (result.blame === 'message' || result.suspect === 'destination');
