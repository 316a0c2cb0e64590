import type { HeldSnapshotReport, TableFacts } from '../store/diagnose/diagnose-store.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';
import { lastingText } from './lasting.js';

/** Pure: what the tables and those that hold their dead rows tell. */

/** Rows that are a lot beside few live ones. */
const MANY_DEAD = 100_000;
const DEAD_PER_LIVE = 2;

export function judgeTables(tables: readonly TableFacts[], isVacuumed: boolean): Finding[] {
  const bytes = tables.reduce((sum, table) => sum + table.bytes, 0);
  const sizes = Object.fromEntries(tables.map((table) => [`${table.table}Bytes`, table.bytes]));
  return [
    isOk('size', `The tables have ${megabytes(bytes)} MB.`, { bytes, ...sizes }),
    ...tables.filter((table) => !table.isVacuumedBySelf).map(notVacuumed),
    ...judgeDead(tables, isVacuumed),
  ];
}

const megabytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);

const notVacuumed = ({ table, name }: TableFacts): Finding =>
  found(
    'vacuum',
    'warning',
    { text: `Autovacuum is off for ${name}.`, evidence: { table } },
    'Nobody removes its dead rows: reads get slower, and the table grows.',
    `alter table ${name} set (autovacuum_enabled = true);`,
  );

function judgeDead(tables: readonly TableFacts[], isVacuumed: boolean): Finding[] {
  const counted = tables.filter(({ deadRows }) => deadRows !== null);
  if (counted.length === 0) return [];
  const full = counted.filter(
    ({ deadRows, liveRows }) => (deadRows ?? 0) > Math.max(MANY_DEAD, liveRows * DEAD_PER_LIVE),
  );
  if (full.length === 0) {
    const rows = Object.fromEntries(counted.map(({ table, deadRows }) => [`${table}DeadRows`, deadRows]));
    return [isOk('dead-rows', 'The tables have few dead rows.', rows)];
  }
  return full.map(({ table, name, deadRows, liveRows, lastVacuum }) =>
    found(
      'dead-rows',
      'warning',
      {
        text: `${name} has ${deadRows} dead rows beside ${liveRows} live ones.`,
        evidence: { table, deadRows, liveRows, lastVacuum },
      },
      'Reads walk over them: messages go out later, and the server is busier.',
      `${isVacuumed ? 'Look for a held snapshot first (code snapshot). Then run' : 'Turn autovacuum on (code vacuum), and run'}: vacuum ${name};`,
    ),
  );
}

/** Versions of rows: InnoDB gets slower with millions. */
const MANY_UNPURGED = 1_000_000;

export function judgeUnpurged(versions: number): Finding {
  const evidence = { historyListLength: versions };
  if (versions < MANY_UNPURGED) return isOk('purge', `InnoDB has ${versions} transactions to purge.`, evidence);
  return found(
    'purge',
    'warning',
    { text: `InnoDB has ${versions} transactions to purge (history list length).`, evidence },
    'Reads walk over rows that are gone: messages go out later.',
    'Look for a held snapshot (code snapshot). Without one raise innodb_purge_threads.',
  );
}

export function judgeSnapshot(held: HeldSnapshotReport, heldFor: number, now: number): Finding {
  if (held === undefined) return isOk('snapshot', 'No transaction keeps dead rows.');
  if ('needs' in held)
    return found(
      'snapshot',
      'note',
      { text: `This login may not see other transactions.`, evidence: { needs: held.needs } },
      'A transaction that keeps dead rows would not be named.',
      `grant ${held.needs.toLowerCase()} on *.* to …;`,
    );
  const { holder, details, age, dead, end } = held;
  const since = age === undefined ? null : new Date(now - age);
  const evidence = { holder, details: details.join(', '), ageMs: age ?? null, since, deadRows: dead ?? null };
  const long = age === undefined ? 'for a time that this login may not see' : `for ${lastingText(age / 1_000)}`;
  const text = `The oldest transaction is that of ${holder} (${details.join(', ')}), ${long}.`;
  if (age !== undefined && age < heldFor) return isOk('snapshot', text, evidence);
  return found(
    'snapshot',
    age === undefined ? 'note' : 'warning',
    { text, evidence },
    'The server keeps every row that was deleted since: reads get slower, and the tables grow.',
    end,
  );
}
