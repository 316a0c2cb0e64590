import { literal } from '../../names.js';

/** Of one array. Of several it is grammar. */
const UNNEST = 'unnest(?=\\([^(),]*\\))';

/** Functions of PostgreSQL that our SQL calls; `extract`, `overlay` and `substring … from` are grammar, and stay as they are. */
const CALLED = `
  array_agg bool_or json_agg json_object_agg count jsonb_agg max min string_agg sum cardinality ceil
  convert_from convert_to encode format format_type generate_series get_byte hashtext hashtextextended
  int8send isfinite json_build_array jsonb_array_elements jsonb_build_array jsonb_build_object nextval
  octet_length replace set_bit sha256 to_char uuid_send gen_random_uuid clock_timestamp now current_database
  current_schema current_schemas array_to_string chr current_setting set_config has_function_privilege
  has_schema_privilege row_security_active pg_advisory_xact_lock pg_advisory_xact_lock_shared
  pg_control_system pg_current_snapshot pg_current_xact_id pg_get_constraintdef pg_get_expr pg_get_userbyid
  pg_is_in_recovery pg_logical_emit_message pg_sequence_last_value pg_snapshot_xmax pg_visible_in_snapshot age
  concat_ws has_sequence_privilege left pg_backend_pid pg_postmaster_start_time pg_relation_filenode
  pg_stat_get_dead_tuples to_regclass to_regnamespace to_regprocedure
`;
const NAMES = [...CALLED.trim().split(/\s+/), UNNEST].join('|');
const CALLS = new RegExp(`(?<![\\w."])(?=(?:${NAMES})\\()`, 'g');

/**
 * With each call of a function qualified. A name by itself is looked up in all schemas of the session's search_path, and one
 * that fits the arguments better than PostgreSQL's own is taken: anybody who may create a function in one of these schemas
 * would run code as whoever calls it.
 */
export function inCatalog(sql: string): string {
  return sql.replace(CALLS, 'pg_catalog.');
}

/**
 * Of what the catalog has by its oid. PostgreSQL has no operator for `oid = regclass`: it casts one side, or takes that of
 * anybody who made one.
 */
export const oidOf = (name: string): string => `pg_catalog.to_regclass(${literal(name)})::pg_catalog.oid`;

/** For sessions and functions of ours. Temporary tables come last: else they would come first, in front of anybody's. */
export const PINNED_PATH = 'pg_catalog, pg_temp';
