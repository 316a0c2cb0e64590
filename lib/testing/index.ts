// For tests of applications, of transports and of stores. Needs no test runner of its own.
export { FakeClock } from './fake-clock.js';
export { outboxTesting, OutboxTesting, type DrainReport } from './outbox-testing.js';
export { overrideOutbox, type OverrideOutboxOptions } from './override-outbox.js';
export { RecordingTransport, type FailOptions } from './recording-transport.js';
export type { RecordedMessage } from './matching.js';
export { describeTransportContract } from './transport-contract/contract.js';
export type { TransportHarness } from './transport-contract/harness.js';
export { describeDataLayerContract } from './data-layer-contract/contract.js';
export type { DataLayerHarness, OpenedDataLayer } from './data-layer-contract/harness.js';
export { describeStoreContract, type OpenTransaction, type StoreHarness } from './store-contract/contract.js';
