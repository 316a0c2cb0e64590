import { randomBytes } from 'node:crypto';
import assert from 'node:assert/strict';
import type { OutboxMessage } from '../../outbox-message.js';
import type { OutboxTransport } from '../../transports/transport.js';
import { probePublish, type PublishOutcome } from './publish-probe.js';
import type { TransportHarness } from './harness.js';

/** One suite run: the harness with its gaps filled, and the transports to close at the end. */
export class ContractRun {
  readonly timeout: number;
  readonly faultTimeout: number;
  private readonly opened: OutboxTransport[] = [];

  constructor(readonly harness: TransportHarness) {
    this.timeout = harness.timeout ?? 10_000;
    this.faultTimeout = harness.faultTimeout ?? 1_000;
  }

  async connected(): Promise<OutboxTransport> {
    const transport = await this.harness.create();
    this.opened.push(transport);
    await transport.connect?.(AbortSignal.timeout(this.timeout));
    return transport;
  }

  async topic(): Promise<string> {
    return (await this.harness.createTopic?.()) ?? `contract-${randomBytes(6).toString('hex')}`;
  }

  publish(
    transport: OutboxTransport,
    batch: readonly OutboxMessage[],
    timeout = this.timeout,
  ): Promise<PublishOutcome> {
    return probePublish(transport, batch, { timeout });
  }

  async publishAll(transport: OutboxTransport, batch: readonly OutboxMessage[]): Promise<void> {
    assertAllOk(await this.publish(transport, batch));
  }

  /** Asserts what arrived, in the order of the array; nothing to say without a consumer. */
  async assertArrived(topic: string, ids: readonly string[]): Promise<void> {
    const received = await this.harness.received?.(topic, ids.length);
    if (received !== undefined)
      assert.deepEqual(
        received.map(({ id }) => id),
        ids,
      );
  }

  /** The ids of everything that arrived until this one did; without a consumer it is believed to have. */
  async arrivedUpTo(topic: string, id: string, count = 1): Promise<readonly string[]> {
    if (this.harness.received === undefined) return [id];
    for (;;) {
      const ids = (await this.harness.received(topic, count)).map((message) => message.id);
      if (ids.includes(id)) return ids;
      count = ids.length + 1;
    }
  }

  async close(): Promise<void> {
    await this.harness.faults?.heal();
    await Promise.all(this.opened.splice(0).map((transport) => transport.close?.()));
  }
}

export function assertAllOk({ results, rejection }: PublishOutcome): void {
  const failed = results.find((result) => !result.ok);
  assert.ok(
    failed === undefined,
    `not published: ${textOf(failed)}${rejection === undefined ? '' : `; ${String(rejection)}`}`,
  );
}

function textOf(result: PublishOutcome['results'][number] | undefined): string {
  return result === undefined || result.ok ? 'ok' : `${result.blame}: ${String(result.error)}`;
}
