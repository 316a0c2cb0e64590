// The whole public surface of the root; each broker has a subpath of its own.
export { OutboxModule } from './outbox.module.js';
export { getOutboxToken, InjectOutbox, type OutboxPart } from './outbox.tokens.js';
export { OutboxService, type OutboxWriter } from './enqueue/outbox.service.js';
export type { OutboxTransactionOptions } from './enqueue/transaction-options.js';
export { OutboxDispatcher } from './dispatch/dispatcher.js';
export { OutboxUnlocker } from './claim/unlocker.js';
export { OutboxCleaner } from './clean/cleaner.js';

export { OutboxEvent, type OutboxEventOptions } from './enqueue/outbox-event.decorator.js';
export {
  OnOutboxEvent,
  type OnOutboxEventOptions,
  type OutboxHandlerContext,
} from './publish/on-outbox-event.decorator.js';
export { inProcess, type InProcessOptions } from './publish/transports/in-process.js';

export { OutboxMessage } from './message.js';
export type { Duration, HeaderValue, MessageHeaders, MessageOptions } from './message.js';
export type { KafkaMessageOptions, RabbitMqMessageOptions } from './message.js';
export type {
  EnqueueOptions,
  EnqueueReport,
  MessageSettings,
  PlainMessage,
  ReportOption,
} from './enqueue/enqueue-options.js';
export type { OutboxStore } from './store/outbox-store.js';
export type { BrokenLeases, LeaseSelection } from './enqueue/break-leases.js';
export type { DryRun, MessageSelection, OperatorCount } from './enqueue/selection.js';
export type { MessageState, OperatorReport } from './store/admin-store.js';
export type { RelayStatus, LaneStatus, RunReport } from './dispatch/relay.js';
export type { FailingOperation } from './dispatch/database-failures.js';

export { OutboxTransport, PUBLISHED } from './publish/transport.js';
export type {
  Blame,
  CheckedMessage,
  ExpectedMessages,
  MissingDestination,
  PublishContext,
  PublishFailure,
  PublishOk,
  PublishResult,
  TransportHealth,
  TransportLimits,
} from './publish/transport.js';
export type { Serializer } from './publish/serializer.js';
export { OutboxUndecryptableError } from './encryption.js';
export type { EncryptedPayload, EncryptionContext, PayloadEncryption } from './encryption.js';

export type {
  Classifier,
  CronJobClass,
  DeadLetterEvent,
  OpenStore,
  OutboxAsyncOptions,
  OutboxExtras,
  OutboxModuleAsyncOptions,
  OutboxModuleOptions,
  OutboxOptions,
  OutboxOptionsFactory,
  RetryOptions,
  TransactionHandle,
  TransportDefinition,
  TransportOption,
} from './outbox.options.js';

export { OutboxEvents } from './observe/outbox-events.js';
export type { OutboxEventMap, OutboxEventName, OutboxOperation } from './observe/events.js';
export type { OutboxHealth, TransportHealthReport } from './observe/health.js';
export type { OutboxAwayDestination, OutboxStats, OutboxTransportStats } from './observe/stats.js';

export {
  OutboxAmbiguousTransactionError,
  OutboxConfigurationError,
  OutboxDuplicateMessageError,
  OutboxError,
  OutboxKeyMissingError,
  OutboxMessageError,
  OutboxRollbackOnlyError,
  OutboxTransactionConflictError,
  OutboxTransactionRequiredError,
  type OutboxErrorCode,
} from './outbox.errors.js';
