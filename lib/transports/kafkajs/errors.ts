import { CAUSE, failureTable, NODE_ROWS, type FailureTable } from '../failure.js';

/** The broker looked at the record and will not have it. */
const OF_THE_RECORD = [
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_RECORD', // for example: no key on a compacted topic
];
/** Not final: a checksum may have broken on the wire, a policy or a limit may change, a time too far ahead comes. */
const OF_THE_RECORD_NOW = ['INVALID_TIMESTAMP', 'CORRUPT_MESSAGE', 'POLICY_VIOLATION'];
/** Never valid: the broker has a rule for names. */
const OF_THE_NAME = ['INVALID_TOPIC_EXCEPTION'];
/** Not final: somebody creates the topic, grants the right, raises the topic's format. */
const OF_THE_TOPIC = ['UNKNOWN_TOPIC_OR_PARTITION', 'TOPIC_AUTHORIZATION_FAILED', 'UNSUPPORTED_FOR_MESSAGE_FORMAT'];

/** Leaders, replicas and disks of one partition: they pass, however long they take, and other partitions may have theirs. */
const OF_THE_PARTITION = [
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_FOR_PARTITION',
  'REQUEST_TIMED_OUT', // the answers of its replicas
  'REPLICA_NOT_AVAILABLE',
  'NOT_ENOUGH_REPLICAS',
  'NOT_ENOUGH_REPLICAS_AFTER_APPEND',
  'KAFKA_STORAGE_ERROR',
  'LOG_DIR_NOT_FOUND',
  'REASSIGNMENT_IN_PROGRESS',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'PREFERRED_LEADER_NOT_AVAILABLE',
  'ELIGIBLE_LEADERS_NOT_AVAILABLE',
];
/** Brokers and controllers. */
const OF_THE_CLUSTER = [
  'BROKER_NOT_AVAILABLE',
  'STALE_CONTROLLER_EPOCH',
  'NETWORK_EXCEPTION',
  'NOT_CONTROLLER',
  'LISTENER_NOT_FOUND',
  'STALE_BROKER_EPOCH',
];
/** The producer's session: a new producer has another. A fenced one is no message's fault. */
const OF_THE_PRODUCER = [
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'DUPLICATE_SEQUENCE_NUMBER',
  'INVALID_PRODUCER_EPOCH',
  'UNKNOWN_PRODUCER_ID',
  'INVALID_PRODUCER_ID_MAPPING',
  'INVALID_TXN_STATE',
  'INVALID_TRANSACTION_TIMEOUT',
  'CONCURRENT_TRANSACTIONS',
  'TRANSACTION_COORDINATOR_FENCED',
  'OPERATION_NOT_ATTEMPTED', // another partition of the same request failed
];
/** How this client is set up or allowed to be: as true of every message as of this one. */
const OF_THE_CLIENT = [
  'INVALID_REQUIRED_ACKS',
  'UNSUPPORTED_COMPRESSION_TYPE',
  'UNSUPPORTED_VERSION',
  'INVALID_REQUEST',
  'CLUSTER_AUTHORIZATION_FAILED', // an idempotent producer without that right
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'SASL_AUTHENTICATION_FAILED',
  'SECURITY_DISABLED',
  'DELEGATION_TOKEN_AUTH_DISABLED',
  'DELEGATION_TOKEN_NOT_FOUND',
  'DELEGATION_TOKEN_OWNER_MISMATCH',
  'DELEGATION_TOKEN_REQUEST_NOT_ALLOWED',
  'DELEGATION_TOKEN_AUTHORIZATION_FAILED',
  'DELEGATION_TOKEN_EXPIRED',
  'INVALID_PRINCIPAL_TYPE',
];
/** The broker does not know what happened to it. */
const OF_NOBODY_KNOWS = ['UNKNOWN', 'KAFKAJS_UNKNOWN_ERROR_CODE', 'UNKNOWN_ERROR'];
/** kafkajs' word for a connection that ended, as a broker ends it over a request that is too large for it. */
const OF_A_BREAK = ['KafkaJSConnectionClosedError'];
/** Answers to what consumers and administrators ask. To a producer they would be the broker's mistake. */
const NO_ANSWER_TO_A_PRODUCER = [
  'OFFSET_OUT_OF_RANGE',
  'INVALID_FETCH_SIZE',
  'OFFSET_METADATA_TOO_LARGE',
  'GROUP_LOAD_IN_PROGRESS',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'NOT_COORDINATOR_FOR_GROUP',
  'ILLEGAL_GENERATION',
  'INCONSISTENT_GROUP_PROTOCOL',
  'INVALID_GROUP_ID',
  'UNKNOWN_MEMBER_ID',
  'INVALID_SESSION_TIMEOUT',
  'REBALANCE_IN_PROGRESS',
  'INVALID_COMMIT_OFFSET_SIZE',
  'GROUP_AUTHORIZATION_FAILED',
  'TOPIC_ALREADY_EXISTS',
  'INVALID_PARTITIONS',
  'INVALID_REPLICATION_FACTOR',
  'INVALID_REPLICA_ASSIGNMENT',
  'INVALID_CONFIG',
  'NON_EMPTY_GROUP',
  'GROUP_ID_NOT_FOUND',
  'FETCH_SESSION_ID_NOT_FOUND',
  'INVALID_FETCH_SESSION_EPOCH',
  'TOPIC_DELETION_DISABLED',
  'OFFSET_NOT_AVAILABLE',
  'MEMBER_ID_REQUIRED',
  'GROUP_MAX_SIZE_REACHED',
  'FENCED_INSTANCE_ID',
  'ELECTION_NOT_NEEDED',
  'NO_REASSIGNMENT_IN_PROGRESS',
  'GROUP_SUBSCRIBED_TO_TOPIC',
  'UNSTABLE_OFFSET_COMMIT',
];
/**
 * kafkajs' own classes, by `name`, where nothing inside says more. It makes them over connections, metadata, retries and
 * its own state; what it finds wrong with a single record it throws as a TypeError.
 */
const OF_KAFKAJS = [
  'KafkaJSError',
  'KafkaJSNonRetriableError',
  'KafkaJSProtocolError',
  'KafkaJSOffsetOutOfRange',
  'KafkaJSMemberIdRequired',
  'KafkaJSNumberOfRetriesExceeded',
  'KafkaJSConnectionError',
  'KafkaJSRequestTimeoutError',
  'KafkaJSMetadataNotLoaded',
  'KafkaJSTopicMetadataNotLoaded',
  'KafkaJSStaleTopicMetadataAssignment',
  'KafkaJSDeleteGroupsError',
  'KafkaJSServerDoesNotSupportApiKey',
  'KafkaJSBrokerNotFound',
  'KafkaJSPartialMessageError',
  'KafkaJSSASLAuthenticationError',
  'KafkaJSGroupCoordinatorNotFound',
  'KafkaJSNotImplemented', // a codec that is not registered, among others
  'KafkaJSTimeout',
  'KafkaJSLockTimeout',
  'KafkaJSUnsupportedMagicByteInMessageSet',
  'KafkaJSDeleteTopicRecordsError',
  'KafkaJSInvariantViolation',
  'KafkaJSCreateTopicError',
  'KafkaJSAlterPartitionReassignmentsError',
  'KafkaJSAggregateError',
  'KafkaJSNoBrokerAvailableError',
  'Error', // KafkaJSFetcherRebalanceError has no name of its own; nor has the end of a producer
  'AggregateError', // of a connect to several addresses
];
/** Ours, from producer.ts: an answer that does not fit the request. */
const OF_THE_OUTBOX = ['TRANSPORT_UNAVAILABLE', 'PUBLISH_TIMEOUT'];

/** By the protocol's name, Node's code or the class's name. */
export const KAFKA_FAILURES: FailureTable = failureTable(
  ...NODE_ROWS,
  [{ fault: 'message', final: true }, OF_THE_RECORD],
  [CAUSE.message, OF_THE_RECORD_NOW],
  [{ fault: 'destination', final: true }, OF_THE_NAME],
  [{ fault: 'destination' }, OF_THE_TOPIC],
  [{ fault: 'transport', suspect: 'destination' }, OF_THE_PARTITION],
  [CAUSE.suspicious, [...OF_NOBODY_KNOWS, ...OF_A_BREAK]],
  [
    CAUSE.transport,
    [
      ...OF_THE_CLUSTER,
      ...OF_THE_PRODUCER,
      ...OF_THE_CLIENT,
      ...NO_ANSWER_TO_A_PRODUCER,
      ...OF_KAFKAJS,
      ...OF_THE_OUTBOX,
    ],
  ],
);
