import assert from 'node:assert/strict';
import type { OutboxTransport } from '../../transports/transport.js';
import { contractMessage } from './contract-message.js';
import { GRACE, probePublish, type PublishOutcome } from './publish-probe.js';
import type { ContractRun } from './run.js';
import type { ContractRunner, TransportHarness } from './harness.js';

type Faults = NonNullable<TransportHarness['faults']>;

/** What happens when the broker does not answer. Each test heals what it broke. */
export function describeFaults(run: ContractRun, runner: ContractRunner): void {
  const { faults } = run.harness;
  if (faults?.cut !== undefined) describeCut(run, faults, runner);
  if (faults?.loseRequests !== undefined) describeLostRequests(run, faults, runner);
  if (faults?.loseReplies !== undefined) describeLostReplies(run, faults, runner);
}

function describeCut(run: ContractRun, faults: Faults, { it }: ContractRunner): void {
  it('charges nobody while the broker cannot be reached, and comes back', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    await faults.cut!();
    assertNobodysFault(await run.publish(transport, batchOf(topic), run.faultTimeout), run);
    await recover(run, faults, transport);
    const after = contractMessage({ topic });
    await run.publishAll(transport, [after]);
    assert.equal((await run.arrivedUpTo(topic, after.id)).at(-1), after.id);
  });
}

function describeLostRequests(run: ContractRun, faults: Faults, { it }: ContractRunner): void {
  it('is dead once it is rejected: nothing of a timed-out batch is sent later', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const [before, marker, after] = ['before', 'marker', 'after'].map((key) =>
      contractMessage({ topic, key }),
    ) as Three;
    await run.publishAll(transport, [before]);
    await faults.loseRequests!();
    assertNobodysFault(await run.publish(transport, batchOf(topic), run.faultTimeout), run);
    await recover(run, faults, transport);
    await run.publishAll(transport, [marker]);
    await run.publishAll(transport, [after]);
    await run.assertArrived(topic, [before.id, marker.id, after.id]);
  });
}

function describeLostReplies(run: ContractRun, faults: Faults, { it }: ContractRunner): void {
  it('never says `ok` without an answer, and never sends the batch again by itself', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const [old, marker] = [batchOf(topic), contractMessage({ topic, key: 'marker' })];
    await faults.loseReplies!();
    assertNobodysFault(await run.publish(transport, old, run.faultTimeout), run);
    await recover(run, faults, transport);
    await run.publishAll(transport, [marker]);
    const ids = await run.arrivedUpTo(topic, marker.id);
    assert.equal(new Set(ids).size, ids.length, 'a message was sent twice');
    assert.equal(ids.at(-1), marker.id, 'a rejected message was sent after a newer one');
  });

  it('settles soon after it was aborted', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    await faults.loseReplies!();
    const abort = new AbortController();
    setTimeout(() => abort.abort(new Error('shutdown')), 100);
    const outcome = await probePublish(transport, batchOf(topic), { timeout: run.timeout, signal: abort.signal });
    await faults.heal();
    assert.ok(outcome.took < 100 + GRACE, `took ${outcome.took} ms`);
    assert.ok(outcome.results.every((result) => !result.ok && result.blame !== 'message'));
  });

  it('gives up connecting when it is told to, and closes although nobody answers', async () => {
    const [connected, fresh] = [await run.connected(), await run.harness.create()];
    await faults.loseReplies!();
    if (fresh.connect !== undefined) {
      const started = performance.now();
      await assert.rejects(
        async () => fresh.connect!(AbortSignal.timeout(300)),
        'connect must fail when it is aborted',
      );
      assert.ok(performance.now() - started < 300 + GRACE, 'connect went on after its abort');
    }
    const started = performance.now();
    await Promise.all([connected.close?.(), fresh.close?.()]);
    assert.ok(performance.now() - started < run.timeout, 'close waited for a dead broker');
    await faults.heal();
  });
}

type Three = [
  ReturnType<typeof contractMessage>,
  ReturnType<typeof contractMessage>,
  ReturnType<typeof contractMessage>,
];

function batchOf(topic: string) {
  return Array.from({ length: 5 }, (_, n) => contractMessage({ topic, key: `lost-${n}` }));
}

async function recover(run: ContractRun, faults: Faults, transport: OutboxTransport): Promise<void> {
  await transport.reset?.();
  await faults.heal();
  await transport.connect?.(AbortSignal.timeout(run.timeout));
}

function assertNobodysFault({ results, took }: PublishOutcome, run: ContractRun): void {
  assert.ok(took < run.faultTimeout + GRACE, `settled after ${took} ms`);
  for (const result of results) {
    assert.ok(!result.ok, '`ok` without the broker');
    assert.notEqual(result.blame, 'message', 'an outage was charged to a message');
  }
}
