import type { ServerFacts } from '../../diagnose/diagnose-store.js';
import type { SqlExecutor } from '../../executor.js';
import { rowsOf } from '../../rows-of.js';
import { capabilitiesOf } from '../capabilities.js';
import { severalPrimaries } from '../schema/server.js';

const SETTINGS = `'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'log_bin', 'sync_binlog', 'sql_mode', 'max_allowed_packet',
  'read_only', 'innodb_read_only', 'max_connections', 'auto_increment_increment', 'wsrep_on', 'wsrep_provider',
  'innodb_autoinc_lock_mode'`;
const READ_ONLY = ['read_only', 'innodb_read_only'] as const;
const isOff = (value: string | undefined): boolean => ['0', 'OFF'].includes(String(value).toUpperCase());

/** @param hasOneWriter the operator said that only one server is written to */
export async function readServer(db: SqlExecutor, hasOneWriter: boolean): Promise<ServerFacts> {
  const all = await rowsOf(db, `show global variables where variable_name in (${SETTINGS})`);
  const settings = Object.fromEntries(all.map(([name, value]) => [String(name), String(value)]));
  const [[version, login] = []] = await rowsOf(db, 'select version(), current_user()');
  const [[, used] = []] = await rowsOf(db, `show global status where variable_name = 'Threads_connected'`);
  const { product } = capabilitiesOf(String(version));
  const increment = Number(settings['auto_increment_increment']);
  const several = severalPrimaries(increment, new Map(Object.entries(settings)));
  return {
    product,
    version: String(version),
    login: String(login),
    readOnly: READ_ONLY.find((name) => !isOff(settings[name])) ?? null,
    settings,
    connections: { used: Number(used), most: Number(settings['max_connections']) },
    openSchemas: [],
    hiddenTables: [],
    numbers:
      several === undefined || hasOneWriter
        ? null
        : {
            problem: `${several}: several servers deal out numbers`,
            fix: "Use ordering: 'none', or lead all writes to one server and say so in the meta table (see the error of the start).",
          },
  };
}
