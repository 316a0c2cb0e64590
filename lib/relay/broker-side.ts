import { errorText } from '../observe/redact/error-text.js';
import { within } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { PauseGate } from './pauses/gate.js';
import type { FirstConnection } from './publish/first-connection.js';
import type { InFlight } from './publish/in-flight.js';
import type { Outage } from './publish/outage.js';
import type { Publisher } from './publish/publisher.js';
import type { TransportStatus } from './contracts.js';
import type { TransportRelayDependencies } from './transport-parts.js';
import type { Settler } from './settle/settler.js';

/** What relays of both kinds, with leases and with row locks, have between the database and their broker. */
interface BrokerSide {
  readonly deps: TransportRelayDependencies<unknown>;
  readonly publisher: Publisher;
  readonly outage: Outage;
  readonly gate: PauseGate;
  readonly flight: Pick<InFlight, 'messages'>;
  /** Where results are not written with what was read. */
  readonly settler?: Pick<Settler, 'stop'>;
  readonly kill: AbortController;
}

/**
 * Waits for what is in flight, then closes the transport; past the deadline it is destroyed.
 * @param finished nothing is claimed any more, and all that was is settled
 */
export async function endBrokerSide(
  { deps, publisher, outage, settler, kill }: BrokerSide,
  firstConnection: FirstConnection,
  finished: Promise<unknown>,
  deadline: Deadline,
): Promise<void> {
  const isInTime = await deadline.within(finished);
  firstConnection.stop(); // not before: what was in flight may have waited for it
  outage.stop(); // what is broken off below is none
  if (!isInTime) {
    kill.abort();
    await publisher.reset();
    await within(deps.clock, 1_000, Promise.allSettled([finished]));
  }
  settler?.stop();
  await publisher.close(deadline);
}

/** What is said of all relays; for one without leases nothing else is. */
export function statusOf({ deps, outage, gate, flight }: BrokerSide): TransportStatus {
  const { circuit, destinations } = outage;
  const now = deps.clock.monotonic();
  return {
    transport: deps.name,
    receipt: deps.transport.receipt,
    circuit: circuit.state,
    openFor: circuit.openFor(now),
    buckets: [],
    buffered: 0,
    inFlight: flight.messages,
    blockedKeys: 0,
    lastError: circuit.lastError === undefined ? null : errorText(circuit.lastError),
    paused: gate.pause,
    onTrial: 0,
    away: destinations.list(now),
    readAgain: 0,
  };
}
