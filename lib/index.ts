// The whole public surface of the root; each broker has a subpath of its own.
export { OutboxModule } from './outbox.module.js';
export { getOutboxToken, InjectOutbox, type OutboxPart } from './outbox.tokens.js';
export { OutboxService, type OutboxWriter } from './enqueue/outbox.service.js';
export { OutboxAdmin, type MessagePage } from './admin/outbox-admin.js';
export type { MessageQuery, PageOptions } from './admin/message-query.js';
export type { FoundMessage } from './admin/found-message.js';
export type { KeptFailure, MessageDetails, PayloadPreview, TransportDetails } from './admin/message-details.js';
export type { Explanation, ExplanationCode, ExplanationReason } from './admin/explanation-reason.js';
export type { FailureGroup, FailureQuery, FailureReport } from './admin/failure-groups.js';
export type { BucketState } from './admin/bucket-table.js';
export type { StoredState } from './store/inspect-store.js';
export type { OutboxTransactionOptions } from './transaction/options.js';
export { OutboxDispatcher } from './relay/dispatcher.js';
export { OutboxUnlocker } from './relay/leases/unlocker.js';
export { OutboxCleaner } from './clean/cleaner.js';
export { OutboxPartitionMaintainer } from './partitions/maintainer.js';
export type { PartitionNotDone, PartitionReport, PartitionStatus } from './partitions/maintainer.js';
export type { PartitionPeriod } from './store/partitions/period.js';

export { OutboxEvent, type OutboxEventOptions } from './enqueue/events/outbox-event.decorator.js';
export {
  OnOutboxEvent,
  type OnOutboxEventOptions,
  type OutboxHandlerContext,
} from './enqueue/events/on-outbox-event.decorator.js';
export { inProcess, type InProcessOptions } from './transports/in-process/in-process.js';

export { OutboxMessage } from './outbox-message.js';
export type { Duration, HeaderValue, MessageHeaders, MessageOptions } from './outbox-message.js';
export type { KafkaMessageOptions, RabbitMqMessageOptions } from './outbox-message.js';
export type { EnqueueOptions, EnqueueReport, MessageSettings, PlainMessage, ReportOption } from './enqueue/options.js';
export type { OutboxStore } from './store/outbox-store.js';
export type { BrokenLeases, LeaseSelection } from './admin/break-leases.js';
export type { DryRun, MessageSelection, OperatorCount } from './admin/selection.js';
export type { MessageState, OperatorReport } from './store/admin-store.js';
export type { RelayStatus, TransportStatus, RunReport } from './relay/relay.js';
export type { FailingOperation } from './relay/database-failures.js';

export { OutboxTransport, PUBLISHED } from './transports/transport.js';
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
} from './transports/transport.js';
export type { Serializer } from './message/serializer.js';
export { OutboxUndecryptableError } from './message/encryption.js';
export type { EncryptedPayload, EncryptionContext, PayloadEncryption } from './message/encryption.js';

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
