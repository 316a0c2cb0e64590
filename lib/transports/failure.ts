import { BROKEN_CONNECTION, ENCODING_ERRORS } from './network-errors.js';
import type { Blame, PublishFailure } from './transport.js';

/** Whose fault it is what a broker or its client says, before it is known how many messages shared it. */
export type Fault =
  /** One of the messages. Which one is known only when it was alone. */
  | 'message'
  /** The destination: every message to it, when all of them went there. */
  | 'destination'
  /** A message's, or the broker's own. Neighbours are tried singly. Who was alone is a suspect, and not charged. */
  | 'either'
  /** Connection, cluster, credentials, state of the client: nobody's messages. */
  | 'transport';

/** What a row of a failure table says of its names. */
export interface FailureCause {
  readonly fault: Fault;
  /** Trying the same bytes again is of no use. */
  readonly final?: true;
  /** With the fault `transport`: what else it may be. */
  readonly suspect?: 'destination' | 'message';
}

export const CAUSE = {
  message: { fault: 'message' },
  either: { fault: 'either' },
  /** Also of what no row names: a wrong `transport` costs a retry, a wrong `message` costs a message its life in an outage. */
  transport: { fault: 'transport' },
  /** A connection that was there broke, or the broker does not know what happened: over what was on it, perhaps. */
  suspicious: { fault: 'transport', suspect: 'message' },
} as const satisfies Record<string, FailureCause>;

/** By the name of a code or of a class, or by the beginning of a text. Each broker has one, of all that it may say. */
export type FailureTable = ReadonlyMap<string, FailureCause>;
export type FailureRow = readonly [cause: FailureCause, names: Iterable<string>];

/** Of a name in several rows, the last one counts. */
export function failureTable(...rows: readonly FailureRow[]): FailureTable {
  return new Map(rows.flatMap(([cause, names]) => [...names].map((name) => [name, cause] as const)));
}

/** What Node says to every client of more than the transport's fault: of a connection that broke, and of values that it cannot encode. */
export const NODE_ROWS: readonly FailureRow[] = [
  [CAUSE.suspicious, BROKEN_CONNECTION],
  [CAUSE.message, ENCODING_ERRORS],
];

/** The row of this name, or of the words with which this text begins. */
export function rowOf<Row>(table: ReadonlyMap<string, Row>, text: string): Row | undefined {
  const exact = table.get(text);
  if (exact !== undefined) return exact;
  for (const [start, row] of table) if (text.startsWith(start) && !/\w/.test(text[start.length]!)) return row;
  return undefined;
}

/** What a cause means for messages that were sent. */
export interface Classification {
  readonly blame: Blame;
  readonly final: boolean;
  readonly suspect: FailureCause['suspect'] | undefined;
}

/**
 * Who is to blame. Pure, and the one place where a cause becomes blame.
 *
 * @param messages how many were sent together: a culprit among many is found by sending singly. 0: nothing was sent yet,
 * and no message can be at fault
 * @param destinations to how many
 */
export function classify(
  { fault, final, suspect }: FailureCause,
  messages: number,
  destinations = messages,
): Classification {
  const isAlone = messages === 1;
  if (messages === 0) return { blame: 'transport', final: false, suspect: undefined };
  if (fault === 'transport') return { blame: 'transport', final: false, suspect };
  if (fault === 'either' && isAlone) return { blame: 'transport', final: false, suspect: 'message' };
  return isAlone || (fault === 'destination' && destinations === 1)
    ? { blame: 'message', final: final === true, suspect: undefined }
    : { blame: 'collateral', final: false, suspect: undefined };
}

type Failed = { readonly [Name in 'final' | 'suspect' | 'destination' | 'certain']?: PublishFailure[Name] | undefined };

/** Without what is not said. */
export function failed(
  blame: Blame,
  error: unknown,
  { final, suspect, destination, certain }: Failed = {},
): PublishFailure {
  return {
    ok: false,
    blame,
    error,
    ...(final && { final }),
    ...(suspect !== undefined && { suspect }),
    ...(destination !== undefined && { destination }),
    ...(certain && { certain }),
  };
}
