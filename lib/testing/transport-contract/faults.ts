import assert from 'node:assert/strict';
import type { OutboxMessage } from '../../outbox-message.js';
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
  if (faults?.stall !== undefined) describeStall(run, faults, runner);
}

function describeCut(run: ContractRun, faults: Faults, { it }: ContractRunner): void {
  it('charges nobody while the broker cannot be reached, and comes back', async () => {
    const [transport, single, topic] = [await run.connected(), await run.connected(), await run.topic()];
    await faults.cut!();
    await assertOutage(run, topic, transport, single);
    await recover(run, faults, transport);
    const after = contractMessage({ topic });
    await run.publishAll(transport, [after]);
    assert.equal((await run.arrivedUpTo(topic, after.id)).at(-1), after.id);
  });
}

function describeLostRequests(run: ContractRun, faults: Faults, { it }: ContractRunner): void {
  it('is dead once it is rejected: nothing of a timed-out batch is sent later', async () => {
    const [transport, single, topic] = [await run.connected(), await run.connected(), await run.topic()];
    const [before, marker, after] = ['before', 'marker', 'after'].map((key) =>
      contractMessage({ topic, key }),
    ) as Three;
    await run.publishAll(transport, [before]);
    await faults.loseRequests!();
    await assertOutage(run, topic, transport, single);
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

/** More than the buffers of kernels and proxies keep of a connection that nobody reads. */
const BUFFERED = 16_000_000;

function describeStall(run: ContractRun, faults: Faults, { it }: ContractRunner): void {
  it('sends nothing later when a stalled connection goes on, without `reset`', async () => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    await run.publishAll(transport, [contractMessage({ topic })]);
    // As large as may be: of a client that is told to wait, one message is all that it holds.
    const size = Math.min(transport.limits?.payloadBytes ?? 900_000, BUFFERED);
    const batch = (): OutboxMessage[] => batchOf(topic, Math.ceil((2 * BUFFERED) / size), `"${'x'.repeat(size - 2)}"`);
    const [lost, markers] = [batch(), batch()];
    await faults.stall!();
    assertNobodysFault(await run.publish(transport, lost, run.faultTimeout), run);
    await faults.heal();
    // Behind what the old connection still holds, if there is one; as much again gives who goes on beside it the time to.
    for (const marker of markers)
      if (!(await run.publish(transport, [marker])).results[0]!.ok) {
        await recover(run, faults, transport);
        await run.publishAll(transport, [marker]);
      }
    const ids = new Set(await run.arrivedUpTo(topic, markers.at(-1)!.id, markers.length));
    const late = lost.filter(({ id }) => ids.has(id)).length;
    assert.ok(late * size < BUFFERED, `${late} of ${lost.length} messages were sent late`);
  });
}

type Three = [
  ReturnType<typeof contractMessage>,
  ReturnType<typeof contractMessage>,
  ReturnType<typeof contractMessage>,
];

function batchOf(topic: string, length = 5, payload = '{}') {
  return Array.from({ length }, (_, n) => contractMessage({ topic, key: `lost-${n}`, payload }));
}

async function recover(run: ContractRun, faults: Faults, transport: OutboxTransport): Promise<void> {
  await transport.reset?.();
  await faults.heal();
  await transport.connect?.(AbortSignal.timeout(run.timeout));
}

/** With a message by itself, too: there is nobody else to blame for it. */
async function assertOutage(run: ContractRun, topic: string, ...transports: [OutboxTransport, OutboxTransport]) {
  for (const outcome of await Promise.all(
    transports.map((transport, n) => run.publish(transport, batchOf(topic, n === 0 ? 5 : 1), run.faultTimeout)),
  ))
    assertNobodysFault(outcome, run);
}

function assertNobodysFault({ results, took }: PublishOutcome, run: ContractRun): void {
  assert.ok(took < run.faultTimeout + GRACE, `settled after ${took} ms`);
  for (const result of results) {
    assert.ok(!result.ok, '`ok` without the broker');
    assert.notEqual(result.blame, 'message', 'an outage was charged to a message');
  }
}
