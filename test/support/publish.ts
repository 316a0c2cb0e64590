import { probePublish } from '../../lib/testing/transport-contract/publish-probe.js';
import { describeTransportContract, type TransportHarness } from '../../lib/testing/index.js';
import type { OutboxMessage, OutboxTransport, PublishResult } from '../../lib/index.js';
import type { TcpProxy } from './tcp-proxy.js';

// The transport contract's own means, for specs of what one transport does beyond it.
export { contractMessage, type ContractMessageFields } from '../../lib/testing/transport-contract/contract-message.js';
export { probePublish };
export type { ProbeOptions } from '../../lib/testing/transport-contract/publish-probe.js';

export type ContractRunner = NonNullable<Parameters<typeof describeTransportContract>[2]>;
export type ReceivedMessage = Awaited<ReturnType<NonNullable<TransportHarness['received']>>>[number];

/** As the relay publishes, with more time than anything takes. */
export async function publish(
  transport: OutboxTransport,
  batch: readonly OutboxMessage[],
  timeout = 60_000,
): Promise<readonly PublishResult[]> {
  return (await probePublish(transport, batch, { timeout })).results;
}

export const expectAllOk = (results: readonly PublishResult[]): void =>
  expect(results.filter(({ ok }) => !ok)).toEqual([]);

/** The faults of the transport contract, made by a proxy before the broker. */
export const faultsOf = (proxy: () => TcpProxy): NonNullable<TransportHarness['faults']> => ({
  cut: async () => {
    await proxy().refuse();
    proxy().cut();
  },
  loseRequests: () => proxy().set({ up: 'drop' }),
  loseReplies: () => proxy().set({ down: 'drop' }),
  stall: () => proxy().stall(),
  heal: async () => {
    proxy().resume();
    proxy().heal();
    await proxy().accept();
  },
});
