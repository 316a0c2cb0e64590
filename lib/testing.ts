// For tests of applications, of transports and of stores. Needs no test runner of its own.
export { FakeClock } from './testing/fake-clock.js';
export { outboxTesting, OutboxTesting, type DrainReport } from './testing/outbox-testing.js';
export { overrideOutbox, type OverrideOutboxOptions } from './testing/override-outbox.js';
export { RecordingTransport, type FailOptions } from './testing/recording-transport.js';
export type { RecordedMessage } from './testing/matching.js';
export { describeTransportContract } from './testing/transport-contract.js';
export type { TransportHarness } from './testing/transport-harness.js';
export { describeStoreContract, type OpenTransaction, type StoreHarness } from './testing/store-contract.js';
