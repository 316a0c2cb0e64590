import type { HeldSnapshotStatus } from './read/snapshot-watch.js';
import type { OutboxHooks } from '../observe/events.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { ExpectedMessages, OutboxTransport } from '../transports/transport.js';
import type { Pause } from '../store/pauses/pause-store.js';
import type { OutboxStore } from '../store/outbox-store.js';
import type { Clock } from '../time/clock.js';
import type { FailingOperation } from './database-failures.js';
import type { Deadline } from '../time/deadline.js';
import type { AwayDestination } from './publish/destinations.js';

/** Everything the relay is made of. The module builds it; tests and the simulation bring their own parts. */
export interface RelayDependencies {
  readonly options: ResolvedOptions;
  readonly store: OutboxStore;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Another one at every start. Default: random. */
  readonly owner?: () => string;
  readonly hooks: OutboxHooks;
  /** Name → number, as registered in the store. */
  readonly transportIds: ReadonlyMap<string, number>;
  /** What event classes tell of the messages of a transport. Default: nothing. */
  readonly expected?: (transport: string) => readonly ExpectedMessages[];
  /** This relay came or left, or freed leases: others have something to look at. Default: nobody is told. */
  readonly leasesChanged?: () => void;
  /** Whether `lookAtLeases` is called when others change something. Default: no, and they are looked at more often. */
  readonly hears?: () => boolean;
  /** Builds the transports of this relay; called once, when it starts. Loads broker clients here and nowhere earlier. */
  createTransports(): Promise<ReadonlyMap<string, OutboxTransport>>;
}

export interface TransportStatus {
  readonly transport: string;
  readonly receipt: 'broker' | 'handler' | 'none';
  readonly circuit: 'closed' | 'open' | 'probing' | 'blocked';
  /** Milliseconds for which the circuit has not been closed; 0: it is. */
  readonly openFor: number;
  readonly buckets: readonly number[];
  /** Messages read and waiting in memory, and messages being published now. */
  readonly buffered: number;
  readonly inFlight: number;
  readonly blockedKeys: number;
  readonly lastError: string | null;
  /** The pause, as the last heartbeat read it; `null`: not paused. */
  readonly paused: Pause | null;
  /** Messages that go one by one, as one of them may have ended the process that had them before. */
  readonly onTrial: number;
  /** Destinations that accept nothing now, while others of this transport may. */
  readonly away: readonly AwayDestination[];
  /** How often since the start everything was read again, because numbers had gone back or a message stood where none could appear any more. */
  readonly readAgain: number;
}
export interface RelayStatus {
  readonly running: boolean;
  readonly owner: string;
  /** For how long the database has not done something that this relay asks of it again and again, milliseconds; `null` when it does all. */
  readonly storeDownFor: number | null;
  /** What that is. */
  readonly failing: readonly FailingOperation[];
  /** Why nothing of this database is published until somebody decides, or `null`. */
  readonly heldBack: string | null;
  /** How late the last heartbeat of the leases was, milliseconds: a blocked event loop, a frozen process. */
  readonly heartbeatLate: number;
  /** Milliseconds that renewing the leases took, where that left no time to begin a publish in; else `null`. */
  readonly slowRenewal: number | null;
  /** The session whose snapshot keeps dead rows in the way of reads, or `null`. */
  readonly heldSnapshot: HeldSnapshotStatus | null;
  /** One for each transport. */
  readonly transports: readonly TransportStatus[];
}
export interface RunReport {
  readonly published: number;
  readonly retried: number;
  readonly dead: number;
}

/** What the dispatcher turns: one per transport, however it is coordinated. */
export interface RunningRelay {
  start(): void;
  /** There is work, in `ms` milliseconds at the latest. */
  nudge(where: 'ready' | 'parked', ms: number): void;
  /** Stops claiming and waits for what is in flight until the deadline, then destroys the connection. */
  stop(deadline: Deadline): Promise<void>;
  /** Everything that is ready or due now, until it is settled. */
  runPass(): Promise<RunReport>;
  /** Whether nobody else may publish anything of this transport now. */
  readonly holdsAll: boolean;
  /** Resolves when every lease of this transport may be given to somebody else. */
  drain(): Promise<void>;
  status(): TransportStatus;
  /** What is known of ready messages, where they are read under leases. */
  readonly knows?: ReadyKnowledge;
  /** What could not be written down, and still is not. */
  failingWrites(): FailingOperation[];
}

/** What health asks about one transport before it looks, and before it complains. */
export interface ReadyKnowledge {
  readonly transport: number;
  /** Nothing of a bucket is ready up to here, as far as is known; '0': nothing is known. */
  readonly goneUpTo: (bucket: number) => string;
  /** Whether this message was read, or there is no room to read it. */
  readonly waitsFor: (seq: string) => boolean;
}
