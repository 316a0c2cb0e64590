import { durationText } from '../time/duration.js';
import type { PlanFacts, PoolerFacts, RightFacts, ServerFacts } from '../store/diagnose/diagnose-store.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';

/** Pure: what the server's settings, rights and plans mean. */

interface SettingRule {
  readonly code: string;
  readonly name: string;
  readonly isGood: (value: string, all: ServerFacts['settings']) => boolean;
  readonly severity: 'warning' | 'error';
  readonly consequence: string;
  readonly fix: string;
}
const isOn = (value: string): boolean => ['on', '1', 'true'].includes(value.toLowerCase());
const notOff = (value: string): boolean => !['off', '0'].includes(value.toLowerCase());

/** Those that a server does not have are left out. */
const SETTINGS: readonly SettingRule[] = [
  {
    code: 'durability',
    name: 'fsync',
    isGood: isOn,
    severity: 'error',
    consequence: 'A crash of the machine can destroy the database, and every message in it.',
    fix: 'alter system set fsync = on; select pg_reload_conf();',
  },
  {
    code: 'durability',
    name: 'full_page_writes',
    isGood: isOn,
    severity: 'error',
    consequence: 'A crash of the machine can damage the tables.',
    fix: 'alter system set full_page_writes = on; select pg_reload_conf();',
  },
  {
    code: 'durability',
    name: 'synchronous_commit',
    isGood: notOff,
    severity: 'warning',
    consequence:
      'A crash of the server loses the last commits with their messages. None of these was published: the relay waits for the disk.',
    fix: 'Set synchronous_commit to on: with alter database …, alter role … or alter system, whichever turned it off.',
  },
  {
    code: 'durability',
    name: 'innodb_flush_log_at_trx_commit',
    isGood: (value) => value === '1',
    severity: 'warning',
    consequence: 'A crash of the server can lose committed messages, also ones that were published already.',
    fix: 'set global innodb_flush_log_at_trx_commit = 1; and the same in the server’s configuration.',
  },
  {
    code: 'durability',
    name: 'sync_binlog',
    isGood: (value, { log_bin: log = 'OFF' }) => value === '1' || !isOn(log),
    severity: 'warning',
    consequence: 'After a crash of the server the binary log, and its replicas, can lack committed messages.',
    fix: 'set global sync_binlog = 1; and the same in the server’s configuration.',
  },
  {
    code: 'durability',
    name: 'innodb_doublewrite',
    isGood: notOff,
    severity: 'warning',
    consequence: 'A crash of the machine can damage the tables.',
    fix: 'Set innodb_doublewrite to ON in the server’s configuration, and restart it.',
  },
  {
    code: 'sql-mode',
    name: 'sql_mode',
    isGood: (value) => /STRICT_(TRANS|ALL)_TABLES/.test(value),
    severity: 'warning',
    consequence: 'What plain SQL inserts, here and in your own tables, is cut in silence where it is too long.',
    fix: 'Add STRICT_TRANS_TABLES to sql_mode of the server.',
  },
  {
    code: 'vacuum',
    name: 'autovacuum',
    isGood: isOn,
    severity: 'warning',
    consequence: 'Nobody removes the dead rows of messages that are gone: reads get slower, and the tables grow.',
    fix: 'alter system set autovacuum = on; select pg_reload_conf();',
  },
  {
    code: 'vacuum',
    name: 'track_counts',
    isGood: isOn,
    severity: 'warning',
    consequence: 'Autovacuum does not learn which tables have dead rows, and leaves them.',
    fix: 'alter system set track_counts = on; select pg_reload_conf();',
  },
];

/** Part of the most that is a lot. */
const MANY = 0.9;
/** Bytes of a statement beside the payload. */
const PACKET_MARGIN = 64 * 1024;

export function judgeServer(server: ServerFacts, options: { readonly maxPayloadBytes: number }): Finding[] {
  return [
    judgeReadOnly(server),
    ...judgeSettings(server.settings),
    ...judgePacket(server.settings, options.maxPayloadBytes),
    judgeConnections(server),
    judgeNumbers(server),
    ...judgeOpenSchemas(server),
    ...judgeHidden(server),
  ];
}

function judgeReadOnly({ product, version, login, readOnly }: ServerFacts): Finding {
  const evidence = { product, version, login, readOnly };
  if (readOnly === null) return isOk('read-only', `${product} ${version} takes writes.`, evidence);
  return isReadOnly(readOnly, evidence);
}

export function isReadOnly(why: string, evidence: Finding['evidence']): Finding {
  return found(
    'read-only',
    'error',
    { text: `The database is read-only (${why}).`, evidence },
    'Nothing can be enqueued, and nothing that is published can be written down.',
    'Lead the connections to the primary. On a primary, find out who set it and why: some hosts do so when the disk is full.',
  );
}

function judgeSettings(all: ServerFacts['settings']): Finding[] {
  const known = SETTINGS.filter(({ name }) => all[name] !== undefined);
  const bad = known.filter(({ name, isGood }) => !isGood(all[name] as string, all));
  const codes = [...new Set(known.map(({ code }) => code))];
  const good = codes.filter((code) => bad.every((rule) => rule.code !== code));
  return [
    ...bad.map(({ code, name, severity, consequence, fix }) =>
      found(
        code,
        severity,
        { text: `${name} is ${all[name]}.`, evidence: { [name]: all[name] as string } },
        consequence,
        fix,
      ),
    ),
    ...good.map((code) => {
      const settings = known.filter((rule) => rule.code === code).map(({ name }) => [name, all[name] as string]);
      const list = settings.map(([name, value]) => `${name} is ${value}`).join(', ');
      return isOk(code, `${list}.`, Object.fromEntries(settings) as Record<string, string>);
    }),
  ];
}

function judgePacket({ max_allowed_packet: packet }: ServerFacts['settings'], maxPayloadBytes: number): Finding[] {
  if (packet === undefined) return [];
  const evidence = { maxAllowedPacketBytes: Number(packet), maxPayloadBytes };
  if (Number(packet) >= maxPayloadBytes + PACKET_MARGIN)
    return [isOk('packet', `max_allowed_packet of ${packet} bytes takes the largest payload.`, evidence)];
  const text = `max_allowed_packet is ${packet} bytes, and payloads may have ${maxPayloadBytes} (maxPayloadBytes).`;
  const fix = `set global max_allowed_packet = ${maxPayloadBytes + PACKET_MARGIN}; or lower maxPayloadBytes.`;
  return [found('packet', 'warning', { text, evidence }, 'The server refuses a message with a large payload.', fix)];
}

function judgeConnections({ connections: { used, most } }: ServerFacts): Finding {
  const evidence = { usedConnections: used, mostConnections: most };
  if (used < most * MANY) return isOk('connections', `${used} of ${most} connections are open.`, evidence);
  return found(
    'connections',
    'warning',
    { text: `${used} of ${most} connections are open.`, evidence },
    'A process that starts, or a relay that connects again, may be refused.',
    'Lower the pools of the application, put a pooler in front, or raise the limit of the server, the database or the login.',
  );
}

function judgeNumbers({ numbers }: ServerFacts): Finding {
  if (numbers === null) return isOk('sequence', 'One source gives out the numbers of messages, one by one.');
  return found(
    'sequence',
    'error',
    { text: `${numbers.problem}.`, evidence: { problem: numbers.problem } },
    'Messages may be published in another order than that of their inserts.',
    numbers.fix,
  );
}

function judgeOpenSchemas({ openSchemas }: ServerFacts): Finding[] {
  return openSchemas.map((schema) =>
    found(
      'public-create',
      'warning',
      { text: `Everybody may create objects in the schema ${schema} of the outbox.`, evidence: { schema } },
      'Anybody can put functions in front of those that your own SQL calls.',
      `revoke create on schema ${schema} from public;`,
    ),
  );
}

function judgeHidden({ hiddenTables, login }: ServerFacts): Finding[] {
  if (hiddenTables.length === 0) return [];
  const tables = hiddenTables.join(', ');
  return [
    found(
      'row-security',
      'error',
      { text: `Row security hides rows of ${tables} from ${login}.`, evidence: { tables, login } },
      'Hidden messages are neither published nor counted.',
      `alter role ${login} bypassrls; or alter table … disable row level security;`,
    ),
  ];
}

/** Rights that a finding names. */
const NAMED = 12;

export function judgeRights({ login, grantee, missing }: RightFacts, work: 'relay' | 'enqueue'): Finding {
  const does = work === 'relay' ? 'a relay' : 'a process that enqueues';
  if (missing.length === 0) return isOk('rights', `${login} has the rights of ${does}.`, { login, missing: 0 });
  const named = missing.slice(0, NAMED).join(', ');
  const more = missing.length > NAMED ? ` and ${missing.length - NAMED} more` : '';
  return found(
    'rights',
    'error',
    {
      text: `${login} lacks rights of ${does}: ${named}${more}.`,
      evidence: { login, missing: missing.length, rights: missing.join(', ') },
    },
    work === 'relay' ? 'Messages are not published, or not written down.' : 'Messages cannot be enqueued.',
    `${missing.map((right) => `grant ${right} to ${grantee};`).join(' ')} The page Schema has the rights of each process.`,
  );
}

export function judgePlans(plans: readonly PlanFacts[]): Finding[] {
  const wrong = plans.filter(({ index, wanted }) => index !== wanted);
  if (wrong.length === 0) {
    const used = Object.fromEntries(plans.map(({ statement, index }) => [statement, index]));
    return [isOk('plan', 'The statements that run most go by their indexes.', used)];
  }
  return wrong.map(({ statement, table, wanted, index }) =>
    found(
      'plan',
      'error',
      {
        text: `To ${statement}, the server does not use the index ${wanted} of ${table}.`,
        evidence: { statement, table, wanted, index },
      },
      'The statement reads the whole table, or fails: the relay gets slower with every message that waits.',
      'The finding of the code schema says what to run. Where it finds nothing: analyze the table.',
    ),
  );
}

export function judgePooler({ isPooled, sharesSessions }: PoolerFacts, listensPast: boolean): Finding {
  const mode = sharesSessions ? 'transaction' : 'not known';
  const evidence = { pooler: isPooled, mode: isPooled ? mode : null };
  if (!isPooled && !sharesSessions) return isOk('pooler', 'No pooler was noticed in front of the database.', evidence);
  const text = `There is a pooler in front of the database${sharesSessions ? ', and gives a session to others after each transaction' : ''}.`;
  return found(
    'pooler',
    'note',
    { text, evidence },
    listensPast
      ? 'Statements are not prepared. The relay listens past the pooler.'
      : 'Statements are not prepared, and the relay polls for what other processes commit.',
    listensPast ? null : 'Give database.pooler the address of PostgreSQL itself, and the relay listens there.',
  );
}

/** What the database said to the first question. */
export function judgeReached(answer: { readonly why: string } | { readonly value: unknown }): Finding {
  if ('value' in answer) return isOk('database', 'The database answers.');
  return found(
    'database',
    'error',
    { text: `The database does not answer: ${answer.why}`, evidence: { why: answer.why } },
    'Nothing can be enqueued or published.',
    'Bring the database back, or correct the address, the login or the limits of its connections. Where its disk is full, enlarge the disk. The relay then continues by itself.',
  );
}

export interface ClockFacts {
  /** By this process's clock, milliseconds since the epoch; half way between question and answer. */
  readonly here: number;
  readonly database: number;
  /** Milliseconds between question and answer. */
  readonly roundTrip: number;
}
/** Milliseconds. */
const SKEW_NOTED = 1_000;
const SKEW_WARNED = 5_000;

export function judgeClock({ here, database, roundTrip }: ClockFacts): Finding {
  const skew = Math.round(here - database);
  const certain = Math.abs(skew) - roundTrip / 2;
  const evidence = { skewMs: skew, uncertaintyMs: Math.ceil(roundTrip / 2) };
  const size = durationText(Math.abs(skew));
  const side = skew > 0 ? 'ahead of' : 'behind';
  if (certain < SKEW_NOTED) return isOk('clock', `The clocks of process and database are ${size} apart.`, evidence);
  return found(
    'clock',
    certain < SKEW_WARNED ? 'note' : 'warning',
    { text: `The clock of this process is ${size} ${side} the database's.`, evidence },
    'Messages with `deliverAt` go out that much too early or too late, and ages that are counted from ids are wrong by it. Leases are not touched: they go by the database.',
    'Let time synchronization (chrony, systemd-timesyncd) run on both machines.',
  );
}
