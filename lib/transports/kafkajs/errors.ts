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
/** The broker does not know what happened to it. */
const OF_NOBODY_KNOWS = ['UNKNOWN', 'KAFKAJS_UNKNOWN_ERROR_CODE', 'UNKNOWN_ERROR'];
/** kafkajs' word for a connection that ended, as a broker ends it over a request that is too large for it. */
const OF_A_BREAK = ['KafkaJSConnectionClosedError'];
/**
 * By the protocol's name, Node's code or the class's name: whatever is more than the transport's fault. All else is that and has no
 * row: cluster and controller, the producer's session (a new producer has another), login and settings of the client, answers
 * to consumers, and kafkajs' own classes, which it throws over connections, metadata, retries and its own state.
 */
export const KAFKA_FAILURES: FailureTable = failureTable(
  ...NODE_ROWS,
  [{ fault: 'message', final: true }, OF_THE_RECORD],
  [CAUSE.message, OF_THE_RECORD_NOW],
  [{ fault: 'destination', final: true }, OF_THE_NAME],
  [{ fault: 'destination' }, OF_THE_TOPIC],
  [{ fault: 'transport', suspect: 'destination' }, OF_THE_PARTITION],
  [CAUSE.suspicious, [...OF_NOBODY_KNOWS, ...OF_A_BREAK]],
);
