import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { CANARY } from '../security/canaries.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { answered, end, flushed, order, ready } from './child.js';
import type { History } from './history.js';
import type { BrokerServer } from './servers/broker.js';
import type { DatabaseServer } from './servers/database.js';
import type { ChaosPgBouncer } from './servers/pgbouncer.js';
import { RELAY, type BrokerName, type LayerName, type Ordering, type Report, type StoreName } from './settings.js';

/** Above it the writers pause: an outage must not make a backlog that the end cannot drain. */
const MAX_BACKLOG = 150_000;
const WRITERS = 2;

export interface FleetSettings {
  readonly store: StoreName;
  readonly layer: LayerName;
  readonly broker: BrokerName;
  readonly ordering: Ordering;
  readonly seed: number;
  readonly origin: string;
  readonly rate: number;
  readonly noScan: boolean;
  readonly inbox: boolean;
  readonly parts: string;
  readonly compiled: string;
}

/** A place for a relay; its lives come and go, its proxies and its database user stay. */
export interface RelaySlot {
  readonly index: number;
  readonly user: string;
  readonly database: TcpProxy;
  readonly broker: TcpProxy;
  /** Past the pooler, of a relay that listens there. */
  readonly direct: TcpProxy | undefined;
  /** Number of its current life. */
  run: number;
  child: ChildProcess | undefined;
  /** Under which its current life holds leases, as soon as it has some. */
  owner: string | undefined;
  /** Lives that ended by themselves: a crash nobody ordered. */
  wanted: boolean;
}
interface WriterSlot {
  readonly index: number;
  child: ChildProcess | undefined;
  committed: number;
  wanted: boolean;
}

/** All processes of a run: four relays behind proxies, two writers and a consumer straight at the servers. */
export class Fleet {
  readonly relays: RelaySlot[] = [];
  readonly writers: WriterSlot[] = [];
  /** Ended without being told to. */
  crashes = 0;
  /** Rows that somebody took out of the tables: nobody will see their messages, or not many of them. */
  taken = 0;
  private consumer: ChildProcess | undefined;
  private seen = 0;
  private before = 0;
  private relayRuns = 0;
  private writerRuns = 0;
  private rate = 0;
  private closing = false;
  private pacer: NodeJS.Timeout | undefined;

  constructor(
    readonly settings: FleetSettings,
    readonly database: DatabaseServer,
    readonly broker: BrokerServer,
    readonly history: History,
    /** In front of the database. */
    readonly pooler?: ChaosPgBouncer,
  ) {}

  /** That writers and relays are led to. */
  private get databasePort(): number {
    return this.pooler?.port ?? this.database.port;
  }

  async open(): Promise<void> {
    this.writers.push(...Array.from({ length: WRITERS }, (_, index) => writerSlot(index)));
    await this.startWriter(this.writers[0] as WriterSlot, true);
    await this.database.watchLeases();
    for (let index = 0; index < RELAY.relays; index += 1) {
      const [database, broker] = [await proxyTo(this.databasePort), await proxyTo(this.broker.port)];
      // Behind a pooler every other relay listens past it, and the others poll.
      const direct = this.pooler !== undefined && index % 2 === 0 ? await proxyTo(this.database.port) : undefined;
      const user = `relay${index + 1}`;
      this.relays.push({
        index,
        user,
        database,
        broker,
        direct,
        run: 0,
        child: undefined,
        owner: undefined,
        wanted: false,
      });
    }
    await Promise.all([
      ...this.writers.slice(1).map((slot) => this.startWriter(slot)),
      this.startConsumer(),
      ...this.relays.map((slot) => this.startRelay(slot)),
    ]);
  }

  /** Lets the writers write, at the given rate unless the backlog grows too large. */
  go(): void {
    this.rate = this.settings.rate;
    this.pacer = setInterval(() => this.pace(), 500);
    this.pace();
  }

  /** Messages committed, as the writers tell, and deliveries seen. */
  get counts(): { committed: number; seen: number } {
    return { committed: this.writers.reduce((sum, slot) => sum + slot.committed, this.before), seen: this.seen };
  }

  /** Messages that wait, or nearly so many. */
  get backlog(): number {
    const { committed, seen } = this.counts;
    return committed - seen - this.taken;
  }

  private pace(): void {
    const rate = this.backlog > MAX_BACKLOG ? 0 : this.rate / WRITERS;
    for (const { child } of this.writers) order(child, { kind: 'rate', messagesPerSecond: rate });
    order(this.writers[0]?.child, { kind: 'release' });
  }

  async startRelay(slot: RelaySlot): Promise<void> {
    const run = (slot.run = this.relayRuns += 1);
    const { database, broker } = this;
    slot.wanted = true;
    const child = this.start('relay', `relay-${run}`, {
      run,
      databaseUrl: database.url(slot.user, slot.database.port),
      listenUrl: slot.direct && database.url(slot.user, slot.direct.port),
      brokerUrl: broker.urlThrough(slot.broker.port),
      brokerPort: slot.broker.port,
    });
    slot.child = child;
    slot.owner = undefined;
    child.on('message', ({ kind, owner }: Report) => {
      if (kind === 'owner' && slot.child === child) slot.owner = owner;
    });
    this.history.add(['run', run, slot.index, this.history.now()]);
    let wasReady = false;
    child.once('exit', (code, signal) => {
      if (!slot.wanted || this.closing || slot.child !== child) return;
      // It may not have come up because a fault was on; then it is tried again, as an orchestrator would.
      this.crashes += 1;
      this.history.add(['crash', run, this.history.now(), code, signal, wasReady]);
      void this.later(1_000, () =>
        slot.wanted && slot.child === child && !this.closing ? this.startRelay(slot) : undefined,
      );
    });
    await Promise.race([ready(child).then(() => (wasReady = true)), once(child, 'exit')]);
  }

  private async later(ms: number, work: () => Promise<void> | undefined): Promise<void> {
    await pause(ms);
    await work();
  }

  async startWriter(slot: WriterSlot, createTables = false): Promise<void> {
    const run = (this.writerRuns += 1);
    slot.wanted = true;
    const child = this.start('writer', `writer-${run}`, {
      run,
      createTables,
      concurrency: 24,
      secrets: { payload: CANARY.payload, header: CANARY.header },
      databaseUrl: this.database.url('writer', this.databasePort),
      brokerUrl: this.broker.urlThrough(this.broker.port),
    });
    slot.child = child;
    this.before += slot.committed;
    slot.committed = 0;
    child.on('message', ({ kind, count = 0 }: Report) => {
      if (kind === 'count' && slot.child === child) slot.committed = count;
    });
    child.once('exit', () => {
      if (slot.wanted && !this.closing && slot.child === child)
        void this.later(500, () => (slot.wanted && slot.child === child ? this.startWriter(slot) : undefined));
    });
    await Promise.race([ready(child), once(child, 'exit')]);
  }

  private async startConsumer(): Promise<void> {
    const child = this.start('consumer', 'sightings', {
      databaseUrl: this.database.url('writer'),
      brokerUrl: this.broker.url,
    });
    this.consumer = child;
    child.on('message', ({ count }: Report) => (this.seen = count ?? this.seen));
    child.once('exit', () => {
      if (!this.closing) throw new Error('The consumer ended: this run proves nothing.');
    });
    await ready(child);
  }

  private start(kind: 'relay' | 'writer' | 'consumer', name: string, settings: object): ChildProcess {
    const { parts, compiled, rate: _, ...all } = this.settings;
    const log = openSync(join(parts, `${name}.log`), 'a');
    const part = join(parts, `${name}.jsonl`);
    const child = fork(join(compiled, 'test', 'chaos', 'processes', `${kind}-process.js`), [], {
      env: {
        ...process.env,
        CHAOS: JSON.stringify({ ...all, part, ...settings }),
      },
      execArgv: ['--max-old-space-size=1024'],
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    child.on('error', () => undefined); // a message to a process that is gone
    return child;
  }

  /** The consumer has read all of the seasonal topic of a transport, and has left it; false: it has not, in time. */
  async leave(transport: number): Promise<boolean> {
    return (await answered(this.consumer, { kind: 'leave', transport }, 'left'))?.count === 1;
  }

  /** It reads it again, from its beginning, if it has left it. */
  async join(transport: number): Promise<void> {
    await answered(this.consumer, { kind: 'join', transport }, 'joined');
  }

  /** No more transactions; those that are open end. */
  async stopWriting(): Promise<void> {
    clearInterval(this.pacer);
    await Promise.all(this.writers.map(({ child }) => flushed(child)));
  }

  release(): void {
    order(this.writers[0]?.child, { kind: 'release' });
  }

  /** Ends everything: relays as an orchestrator does, the consumer last. */
  async close(): Promise<void> {
    this.closing = true;
    clearInterval(this.pacer);
    await Promise.all(this.relays.map((slot) => end(slot.child, 'SIGTERM')));
    await flushed(this.consumer);
    await Promise.all([...this.writers.map(({ child }) => end(child, 'SIGKILL')), end(this.consumer, 'SIGKILL')]);
    await Promise.all(
      this.relays.flatMap(({ database, broker, direct }) => [database.close(), broker.close(), direct?.close()]),
    );
  }

  /** At once, for a run that is given up. */
  kill(): void {
    this.closing = true;
    clearInterval(this.pacer);
    const children = [...this.relays, ...this.writers].map(({ child }) => child);
    for (const child of [...children, this.consumer]) child?.kill('SIGKILL');
  }
}

function proxyTo(port: number): Promise<TcpProxy> {
  return TcpProxy.start(`127.0.0.1:${port}`);
}

function writerSlot(index: number): WriterSlot {
  return { index, child: undefined, committed: 0, wanted: false };
}
