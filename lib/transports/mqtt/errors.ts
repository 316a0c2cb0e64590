import { OutboxError, type OutboxErrorCode } from '../../outbox.errors.js';
import { CAUSE, failureTable, NODE_ROWS, type FailureCause, type FailureTable } from '../failure.js';
import type { Verdict } from '../session/session.js';

/** Names of reason codes, by MQTT 5.0, 2.4; the first ones are MQTT 3.1.1's answers to a CONNECT. */
const NAMES: Readonly<Record<number, string>> = {
  0x01: 'Unacceptable protocol version',
  0x02: 'Identifier rejected',
  0x03: 'Server unavailable',
  0x04: 'Bad user name or password',
  0x05: 'Not authorized',
  0x10: 'No matching subscribers',
  0x80: 'Unspecified error',
  0x81: 'Malformed Packet',
  0x82: 'Protocol Error',
  0x83: 'Implementation specific error',
  0x84: 'Unsupported Protocol Version',
  0x85: 'Client Identifier not valid',
  0x86: 'Bad User Name or Password',
  0x87: 'Not authorized',
  0x88: 'Server unavailable',
  0x89: 'Server busy',
  0x8a: 'Banned',
  0x8b: 'Server shutting down',
  0x8c: 'Bad authentication method',
  0x8d: 'Keep Alive timeout',
  0x8e: 'Session taken over',
  0x90: 'Topic Name invalid',
  0x91: 'Packet Identifier in use',
  0x93: 'Receive Maximum exceeded',
  0x95: 'Packet too large',
  0x96: 'Message rate too high',
  0x97: 'Quota exceeded',
  0x98: 'Administrative action',
  0x99: 'Payload format invalid',
  0x9a: 'Retain not supported',
  0x9b: 'QoS not supported',
  0x9c: 'Use another server',
  0x9d: 'Server moved',
  0x9f: 'Connection rate exceeded',
  0xa0: 'Maximum connect time',
};

/** What a PUBACK says of its message; by name. Of any other code nobody knows whose fault it is. */
const ANSWERS: FailureTable = failureTable(
  // Not final: a schema may be changed.
  [CAUSE.message, [NAMES[0x99]!]],
  [{ fault: 'destination' }, [NAMES[0x90]!]],
  [{ fault: 'transport', suspect: 'destination' }, [NAMES[0x87]!, NAMES[0x97]!]],
  [CAUSE.transport, [NAMES[0x91]!]],
);
/** What a DISCONNECT says of everything that was on the connection. */
const OF_THE_CONNECTION: FailureTable = failureTable([
  CAUSE.either,
  [0x80, 0x81, 0x82, 0x83, 0x87, 0x90, 0x95, 0x99, 0x9a, 0x9b].map((code) => NAMES[code]!),
]);
/** What does not come from the broker. */
const OF_NODE: FailureTable = failureTable(...NODE_ROWS, [{ fault: 'message', final: true }, ['INVALID_MESSAGE']]);

/** What kept a message from its PUBACK. */
export type MqttTrouble =
  /** The PUBACK had a reason code of 0x80 or more. */
  | 'refused'
  /** The PUBACK had the reason code 0x10. */
  | 'no-subscribers'
  /** It never left this process: it is more than the broker takes, or not of a kind that the broker takes. */
  | 'not-taken'
  /** The broker ended the connection, with a DISCONNECT or without a word. */
  | 'disconnected'
  /** No connection could be made. */
  | 'unavailable';

/** What a failed publish says; `reason` and `reasonCode` are for `retry.classify`. */
export class MqttPublishError extends OutboxError {
  readonly reason: MqttTrouble;
  readonly reasonCode: number | undefined;

  constructor(code: OutboxErrorCode, text: string, { reason, reasonCode, ...details }: MqttErrorDetails) {
    super(code, text, details);
    this.reason = reason;
    this.reasonCode = reasonCode;
  }
}
interface MqttErrorDetails {
  readonly reason: MqttTrouble;
  readonly reasonCode?: number | undefined;
  readonly cause?: unknown;
  readonly hint?: string;
}

export const destinationName = (topic: string): string => `topic "${topic}"`;
const nameOf = (code: number): string =>
  `0x${code.toString(16).padStart(2, '0').toUpperCase()} ${NAMES[code] ?? ''}`.trim();

/** @param said the broker's Reason String, for who reads the error */
export function refusedMessage(topic: string, reasonCode: number, said?: string): MqttPublishError {
  const where = destinationName(topic);
  if (reasonCode === 0x10)
    return new MqttPublishError('PUBLISH_REJECTED', `The MQTT broker has no subscriber for ${where}.`, {
      reason: 'no-subscribers',
      reasonCode,
      hint: 'Let its consumer subscribe, with a session that outlives its connection.',
    });
  const text = `The MQTT broker refused the message to ${where} (${nameOf(reasonCode)}).`;
  return new MqttPublishError('PUBLISH_REJECTED', text, { reason: 'refused', reasonCode, ...because(said) });
}

export function notTaken(what: string): MqttPublishError {
  return new MqttPublishError('PUBLISH_REJECTED', `The MQTT broker does not take the message: ${what}.`, {
    reason: 'not-taken',
  });
}

/** @param reasonCode of a DISCONNECT; absent: it came without a word */
export function disconnected(reasonCode?: number, cause?: unknown): MqttPublishError {
  const text =
    reasonCode === undefined
      ? 'The connection to the MQTT broker was lost.'
      : `The MQTT broker ended the connection (${nameOf(reasonCode)}).`;
  return new MqttPublishError('TRANSPORT_UNAVAILABLE', text, { reason: 'disconnected', reasonCode, cause });
}

/** Its answers to QoS 0 are none. */
export const noQos = (): MqttPublishError =>
  new MqttPublishError('TRANSPORT_UNAVAILABLE', 'The MQTT broker takes no messages with QoS 1 (Maximum QoS 0).', {
    reason: 'unavailable',
    reasonCode: 0x9b,
    hint: 'Let it take them; in Mosquitto: max_qos 1. With QoS 0 nobody knows whether a message arrived.',
  });

/** A CONNACK with a reason code, or what Node or mqtt.js say. */
export function notConnected(cause: unknown): MqttPublishError {
  if (cause instanceof MqttPublishError) return cause;
  const { code, message } = Object(cause) as { code?: unknown; message?: unknown };
  const reasonCode = typeof code === 'number' ? code : undefined;
  const hint = HINTS[reasonCode ?? 0];
  const text =
    reasonCode === undefined
      ? `The MQTT broker cannot be reached (${String(code ?? message)}).`
      : `The MQTT broker refused the connection (${nameOf(reasonCode)}).`;
  return new MqttPublishError('TRANSPORT_UNAVAILABLE', text, {
    reason: 'unavailable',
    reasonCode,
    cause,
    ...(hint !== undefined && { hint }),
  });
}

const TOO_OLD = 'mqtt() needs MQTT 5.0: a broker of MQTT 3.1.1 has no reason codes, and confirms what it refuses.';
const WRONG_ID = 'Set clientIdPrefix of mqtt() to what the broker takes.';
const HINTS: Readonly<Record<number, string>> = { 0x01: TOO_OLD, 0x84: TOO_OLD, 0x02: WRONG_ID, 0x85: WRONG_ID };

const because = (said: string | undefined): object => (said === undefined ? {} : { cause: new Error(said) });

/** Whose fault it is. @param topic of the message that was refused; absent: the connection failed */
export function judge(error: unknown, topic?: string): Verdict {
  const { reason, reasonCode = -1 } = Object(error) as Partial<MqttPublishError>;
  const name = NAMES[reasonCode] ?? '';
  if (topic === undefined) {
    if (reason === undefined) return ofNode(error);
    return reason === 'disconnected' && reasonCode === -1
      ? CAUSE.suspicious
      : (OF_THE_CONNECTION.get(name) ?? CAUSE.transport);
  }
  const destination = destinationName(topic);
  if (reason === 'no-subscribers') return { fault: 'transport', suspect: 'destination', destination, certain: true };
  if (reason === 'not-taken') return CAUSE.message;
  if (reason !== 'refused') return ofNode(error);
  const cause: FailureCause = ANSWERS.get(name) ?? CAUSE.either;
  return cause.fault === 'destination' || cause.suspect === 'destination' ? { ...cause, destination } : cause;
}

function ofNode(error: unknown): Verdict {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown };
  return OF_NODE.get(String(code)) ?? OF_NODE.get(String(name)) ?? CAUSE.transport;
}
