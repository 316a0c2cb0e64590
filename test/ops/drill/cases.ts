import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DataSource } from 'typeorm';
import type { Finding } from '../../../lib/index.js';
import { until } from '../../support/until.js';
import { commandIn } from './runbook.js';
import type { Message, System } from './system.js';

export interface DrillCase {
  readonly name: string;
  /** Before all cases: what has to be old by its turn. */
  prepare?(system: System): Promise<void>;
  /** @returns the id of a message that is stuck, where one is */
  break(system: System): Promise<string | undefined>;
  readonly alert: string;
  /** `reason` of an `OutboxDegraded`. */
  readonly reason?: RegExp;
  /** One of its codes. */
  readonly doctor: { readonly code: RegExp; readonly says: RegExp; options?(system: System): string };
  /** What `explain` says of the message; absent: none is stuck. */
  readonly explain?: RegExp;
  repair(system: System, named: Named): Promise<void>;
}
/** What names the repair. */
interface Named {
  /** What the doctor says is to be done. */
  readonly fix: string;
  /** The section of the runbooks to which the alert leads. */
  readonly page: string;
  /** What `explain` says. */
  readonly explained: string;
  readonly id: string;
}

const message = (message: Partial<Message>): Message => ({
  type: 'order.placed',
  topic: 'orders',
  payload: {},
  ...message,
});
const first = async (system: System, ...messages: Message[]): Promise<string | undefined> =>
  (await system.enqueue(...messages))[0];
/** Nothing makes it smaller. */
const noise = (): string => randomBytes(3_000).toString('base64');
/** More than the broker takes. */
const LARGE = { text: 'x'.repeat(30_000) };
/** What a text names, where it does. */
function partOf(text: string, pattern: RegExp): string {
  const found = pattern.exec(text)?.[1];
  if (found === undefined) throw new Error(`No ${pattern} in: ${text}`);
  return found;
}

const stuckKey: DrillCase = {
  name: 'stuck key',
  break: async (system) => {
    const [, behind] = await system.enqueue(message({ key: 'cart-7', payload: LARGE }), message({ key: 'cart-7' }));
    return behind;
  },
  alert: 'OutboxKeysBlocked',
  doctor: { code: /^health$/, says: /1 key of 'default' is blocked by a failed message, with 1 message behind it/ },
  explain: /blocked: It is blocked behind message .* which is dead since .*message size 3\d+ is larger than/,
  async repair(system, { page, explained, id }) {
    const dead = partOf(explained, /behind message (\S+) of its key/);
    await succeeds(system, commandIn(page, 'release').replace('c-1', 'cart-7'));
    await until(() => system.arrived.has(id), 60_000);
    // The dead one stays for later: nobody needs it here.
    await succeeds(system, commandIn(page, 'discard').replace(/[\da-f-]{36}/, dead));
  },
};

const poison: DrillCase = {
  name: 'poison',
  break: (system) => first(system, message({ type: 'report.made', payload: LARGE })),
  alert: 'OutboxDeadLetters',
  doctor: { code: /^health$/, says: /1 dead message for 'default' waits for requeue or discard/ },
  explain: /dead: It is dead for 'default' since .*message size 3\d+ is larger than/,
  async repair(system, { page }) {
    await system.takesAtMost(1_000_000); // the cause, which `explain` named
    await succeeds(system, commandIn(page, 'requeue --type').replace('customer.changed', 'report.made'));
  },
};

const missingQueue: DrillCase = {
  name: 'missing queue',
  break: (system) => first(system, message({ topic: 'invoices', payload: {} })),
  alert: 'OutboxDestinationAway',
  doctor: { code: /^destination-missing$/, says: /RabbitMQ has no queue for messages of 'default': queue "invoices"/ },
  explain: /waiting: .*There is no queue "invoices"/,
  async repair(system, { fix }) {
    await system.makeQueue(partOf(fix, /^Declare the queue '(.*?)'/));
  },
};

const wrongPassword: DrillCase = {
  name: 'wrong password',
  break: async (system) => {
    await system.broker.ctl('change_password', 'shop', 'another');
    await system.broker.ctl('close_all_user_connections', 'shop', 'rotated');
    return first(system, message({}));
  },
  alert: 'OutboxTransportDown',
  doctor: { code: /^broker$/, says: /ACCESS[_-]REFUSED/ },
  explain: /circuit-open: .* publishes nothing to 'default' now: Transport 'default' is down/,
  async repair(system, { fix }) {
    partOf(fix, /(correct address and login in the options)/);
    system.password = 'another';
    system.relay.signal('SIGTERM'); // its options are read again
  },
};

const pausedTransport: DrillCase = {
  name: 'paused transport',
  async break(system) {
    await succeeds(system, 'pause default --reason wrong-prices');
    await system.database.query(`update outbox_pauses set since = since - interval '2 hours'`); // and was forgotten
    await until(() => system.relay.log.includes('is paused by an operator'), 60_000);
    return first(system, message({ key: 'cart-9' }));
  },
  alert: 'OutboxPaused',
  doctor: { code: /^health$/, says: /Transport 'default' is paused since .* by .*: wrong-prices\./ },
  explain: /paused: Transport 'default' is paused since .*: wrong-prices/,
  async repair(system, { page, fix }) {
    partOf(fix, /(OutboxAdmin\.resume)/);
    await succeeds(system, commandIn(page, 'resume').replace('crm', 'default'));
  },
};

const fullDisk: DrillCase = {
  name: 'full disk',
  /** An archive of before yesterday. */
  async prepare({ database }) {
    await database.query(
      `insert into outbox_archive (transport, bucket, seq, id, topic, type, published_at)
       select 0, n % 32, -n, gen_random_uuid(), 'orders', 'old', now() - interval '2 days' from generate_series(1, 2000) n`,
    );
  },
  async break(system) {
    // They are due when there is no room to move them on, nor for them in the archive.
    const later = Array.from({ length: 100 }, () => message({ delay: '3s', payload: { text: noise() } }));
    const id = await first(system, ...later);
    fill(join(system.disk.folder, 'ballast'));
    // The server makes it again at the next log-in, as after many a change: without room for it it takes none.
    for (const file of initFiles(system.disk.folder)) rmSync(file);
    return id;
  },
  alert: 'OutboxDegraded',
  reason: /^(database_refuses|lease_renewal_failing)$/,
  doctor: {
    code: /^database$/,
    says: /No space left|could not write init file/,
    options: ({ disk }) => `--skip-brokers --free-bytes ${free(disk.folder)}`,
  },
  async repair(system, { page, fix }) {
    const { reasons } = JSON.parse(await system.relay.ask('/health')) as { reasons: { text: string }[] };
    partOf(reasons.map(({ text }) => text).join('\n'), /(No space left on device)/);
    partOf(fix, /([Ee]nlarge the disk)/);
    system.disk.enlarge(512);
    await succeeds(system, commandIn(page, 'clean').replace(' --dry-run', ''));
  },
};

const frozenRelay: DrillCase = {
  name: 'frozen relay',
  break: (system) => {
    system.relay.signal('SIGSTOP');
    return first(system, message({}));
  },
  alert: 'OutboxNoRelay',
  doctor: { code: /^relay$/, says: /No live relay publishes to 'default'\. \d+ messages are ready/ },
  explain: /no-relay: No live relay publishes to 'default'/,
  repair: async (system, { fix }) => {
    partOf(fix, /^(Start a process with relay: true)/);
    system.relay.signal('SIGKILL'); // its platform starts another one
  },
};

let backup: DataSource | undefined;
const heldSnapshot: DrillCase = {
  name: 'held snapshot',
  async prepare({ databaseUrl }) {
    const options = { type: 'postgres', url: databaseUrl, applicationName: 'pg_dump' } as const;
    backup = await new DataSource(options).initialize();
    const session = backup.createQueryRunner();
    await session.query('begin isolation level repeatable read');
    await session.query('select 1 from outbox_meta');
  },
  async break({ database }) {
    // As many messages as went through meanwhile: their rows are gone for all but for the backup.
    await database.transaction(async (manager) => {
      await manager.query(
        `insert into outbox_ready (bucket, id, topic, type, payload) select n % 32, gen_random_uuid(), 'orders', 'x', '{}' from generate_series(1, 300000) n`,
      );
      await manager.query(`delete from outbox_ready where type = 'x'`);
    });
    return undefined;
  },
  alert: 'OutboxSnapshotHeld',
  doctor: {
    code: /^snapshot$/,
    says: /The oldest transaction is that of session \d+ \(pg_dump, idle in transaction\)/,
    options: () => '--held-for 10s --skip-brokers --timeout 100s', // the server is busy, and so may the machine be
  },
  async repair({ database }, { fix }) {
    await database.query(partOf(fix, /^(select .*pg_terminate_backend.*);/m));
    await backup?.destroy().catch(() => undefined);
  },
};

const brokerAlarm: DrillCase = {
  name: 'broker alarm',
  async break(system) {
    await system.broker.ctl('set_vm_memory_high_watermark', '0');
    return first(system, message({}));
  },
  alert: 'OutboxTransportDown',
  doctor: { code: /^broker$/, says: /has an alarm, and asks 'default' to wait: low on memory/ },
  explain: /circuit-open: .* publishes nothing to 'default' now: /,
  async repair(system, { fix }) {
    await system.broker.ctl(...partOf(fix, /rabbitmqctl (set_vm_memory_high_watermark [\d.]+)/).split(' '));
  },
};

const droppedIndex: DrillCase = {
  name: 'dropped index',
  async break({ database }) {
    await database.query('drop index outbox_parked_due');
    return undefined;
  },
  alert: 'OutboxSchemaDiffers',
  doctor: { code: /^schema$/, says: /"outbox_parked_due" is missing \(run the up of outboxSql\(\) again\)/ },
  async repair(system, { page }) {
    const printed = await system.migrate(commandIn(page, 'migrate print'));
    await system.database.query(printed.stdout);
  },
};

const clockSkew: DrillCase = {
  name: 'clock skew',
  async break(system) {
    system.setClock(60_000);
    return undefined;
  },
  alert: 'OutboxSlow',
  doctor: { code: /^clock$/, says: /The clock of this process is .* ahead of the database's/ },
  async repair(system, { fix }) {
    partOf(fix, /^(Let time synchronization)/);
    system.setClock(0);
  },
};

/** In the order in which they are tried. */
export const CASES: readonly DrillCase[] = [
  stuckKey,
  pausedTransport,
  poison,
  missingQueue,
  heldSnapshot,
  wrongPassword,
  brokerAlarm,
  frozenRelay,
  droppedIndex,
  clockSkew,
  fullDisk,
];

/** Of the doctor: one that is in the way, or the whole text. */
export const repairOf = ({ text, fix }: Finding): string => `${fix ?? ''}\n${text}`;

async function succeeds(system: System, line: string): Promise<void> {
  const confirmed =
    /^(release|discard|clean|pause|resume)/.test(line) && !line.includes('--yes') ? `${line} --yes` : line;
  await ends(system.run(confirmed));
}
async function ends(run: Promise<{ code: number | null; stderr: string; stdout: string }>): Promise<void> {
  const { code, stderr, stdout } = await run;
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}${stdout}`);
}

const free = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
};

/** Takes all room that there is. */
function initFiles(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => basename(file) === 'pg_internal.init').map((file) => join(folder, file));
}

function fill(file: string): void {
  const opened = openSync(file, 'w');
  try {
    for (let size = 2 ** 20; size >= 4_096;) {
      try {
        if (writeSync(opened, Buffer.alloc(size)) < size) size /= 2;
      } catch {
        size /= 2;
      }
    }
  } finally {
    closeSync(opened);
  }
}
