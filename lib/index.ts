// The whole public surface of the root; each broker has a subpath of its own.
export { OutboxModule } from './outbox.module.js';
export { getOutboxToken, InjectOutbox, type OutboxPart } from './outbox.tokens.js';
export { OutboxService, type OutboxWriter } from './enqueue/outbox.service.js';
export { OutboxAdmin } from './admin/outbox-admin.js';
export type { MessagePage } from './admin/message-pages.js';
export type { MessageQuery, PageOptions } from './admin/message-query.js';
export type { AuditEntry, AuditPage } from './admin/audit.js';
export type {
  BulkOptions,
  BulkProgress,
  BulkReport,
  ChangeOptions,
  ChangeReport,
  DryRun,
  OperatorCount,
} from './admin/bulk-options.js';
export type { MessageSelection } from './admin/message-selection.js';
export type { ReleaseOptions, ReleaseReport } from './admin/operator-actions.js';
export type { ReplayOptions, ReplayProgress, ReplayReport } from './admin/replay/replay-options.js';
export type { ReplayCount, ReplayPreview } from './admin/replay/replay-preview.js';
export type { ReplaySelection } from './admin/replay/replay-selection.js';
export type { FoundMessage } from './admin/found-message.js';
export type { KeptFailure, MessageDetails, TransportDetails } from './admin/message-details.js';
export type { ContentView, PayloadPreview } from './admin/content-view.js';
export type { EditOptions, MessageChanges } from './admin/edit/edit-changes.js';
export type { EditDifference } from './admin/edit/edit-diff.js';
export type { EditPreview, EditReport } from './admin/edit/edit-message.js';
export type { KeptVersion, VersionDetails } from './admin/edit/kept-version.js';
export type { DrainReport, DrainTransport } from './admin/drain/drain.js';
export type { DrainOptions, DrainProgress } from './admin/drain/drain-options.js';
export type { DrainReason } from './admin/drain/drain-reasons.js';
export type { PauseEntry, PauseOutcome, PauseRequest, PauseSubject, ResumeRequest } from './admin/pauses/pause.js';
export type { PurgeCount, PurgeReport } from './admin/purge/purge-run.js';
export type { PurgeSelection } from './admin/purge/purge-selection.js';
export type { Explanation, ExplanationCode, ExplanationReason } from './admin/explanation-reason.js';
export type { FailureGroup, FailureQuery, FailureReport } from './admin/failure-groups.js';
export type { BucketState } from './admin/bucket-table.js';
export { OutboxDoctor } from './doctor/outbox-doctor.js';
export type { DoctorOptions } from './doctor/options.js';
export type { DoctorReport } from './doctor/report.js';
export type { EnqueueRate, OutageBudget, OutageLimit } from './doctor/outage.js';
export type { Evidence, Finding, Severity } from './transports/diagnosis.js';
export type { StoredState } from './store/inspect-store.js';
export type { OutboxTransactionOptions } from './transaction/options.js';
export { OutboxDispatcher } from './relay/dispatcher.js';
export { OutboxUnlocker } from './relay/leases/unlocker.js';
export { OutboxCleaner } from './clean/cleaner.js';
export { OutboxPartitionMaintainer } from './partitions/maintainer.js';
export type { PartitionNotDone, PartitionPlan, PartitionReport, PartitionStatus } from './partitions/maintainer.js';
export type { PartitionRequest } from './partitions/request.js';
export type { PartitionPeriod } from './store/partitions/period.js';

export { OutboxEvent } from './enqueue/events/outbox-event.decorator.js';
export type { OutboxEventOptions } from './enqueue/events/event-metadata.js';
export type { UpcastSteps } from './payloads/event-from.js';
export type { PayloadCheck, PayloadIssue, StandardSchema } from './payloads/standard-schema.js';
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
export type { AuditAction, AuditOutcome } from './store/operator-store.js';
export type { MessageState } from './store/admin-store.js';
export type { RelayStatus, TransportStatus, RunReport } from './relay/contracts.js';
export type { FailingOperation } from './relay/database-failures.js';

export { OutboxTransport, PUBLISHED } from './transports/transport.js';
export type {
  Blame,
  BrokerQuestion,
  CheckedMessage,
  ExpectedMessages,
  MissingDestination,
  PublishContext,
  PublishFailure,
  PublishOk,
  PublishResult,
  TransportHealth,
  TransportStateListener,
  TransportLimits,
} from './transports/transport.js';
export type { DeserializerContext, PayloadDeserializer } from './message/serializer.js';
export type { SerializedPayload, Serializer, SerializerContext } from './message/serializer.js';
export { compressed, type CompressedOptions } from './payloads/compressed.js';
export { OutboxUndecryptableError } from './message/encryption.js';
export type { EncryptedPayload, EncryptionContext, PayloadEncryption } from './message/encryption.js';

export { outboxSql, type OutboxDialect, type OutboxSchemaOptions } from './data-layers/drivers/outbox-sql.js';
export type {
  IsolationLevel,
  OutboxDataLayer,
  OutboxTransaction,
  Register,
  TransactionHandle,
} from './outbox-data-layer.js';
export type {
  Backoff,
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
  TransportDefinition,
  TransportOption,
} from './outbox.options.js';

export { OutboxEvents, type OutboxEventMap, type OutboxEventName, type OutboxOperation } from './observe/events.js';
export type { OutboxHealth, TransportHealthReport } from './observe/health.js';
export type { OutboxReason, ReasonCode } from './observe/reason-codes.js';
export type { OutboxAwayDestination, OutboxStats, OutboxTransportStats } from './observe/stats.js';

export {
  OutboxAmbiguousTransactionError,
  OutboxConfigurationError,
  OutboxDuplicateMessageError,
  OutboxError,
  OutboxKeyMissingError,
  OutboxMessageError,
  OutboxPermanentError,
  OutboxRollbackOnlyError,
  OutboxTransactionConflictError,
  OutboxTransactionRequiredError,
  type OutboxErrorCode,
} from './outbox.errors.js';
