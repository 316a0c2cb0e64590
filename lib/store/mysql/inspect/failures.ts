import { ERROR_LENGTH, type FailureRequest, type FailureRow, type InspectStore } from '../../inspect-store.js';
import { type Row } from '../columns.js';
import { DEAD, WAITING } from '../../parked-state.js';
import { readFailure } from '../../sql/rows.js';
import { MYSQL } from '../dialect.js';
import type { Select } from '../../sql/timed-selects.js';

const FAILED_AT = 'coalesce(attempted_at, died_at, parked_at)';
const COLUMNS = `transport, state, type, topic, coalesce(left(last_error, ${ERROR_LENGTH}), '') as error, id, ${FAILED_AT} as failed_at, died_at`;

/** Of the dead those that died last: of each transport, and of those that were announced or not, as the index has them. */
export function failuresSql(parked: string, { states, look }: FailureRequest, transports: readonly number[]): Select {
  const part = (transport: number, announced: number, state: number) => ({
    text: `(select ${COLUMNS} from ${parked} force index (by_state) where transport = ? and state = ? and announced = ?
      ${state === DEAD ? 'order by died_at desc ' : ''}limit ?)`,
    values: [transport, state, announced, look] as unknown[],
  });
  const lists = [
    ...(states.includes('dead') ? [transports.flatMap((id) => [0, 1].map((told) => part(id, told, DEAD)))] : []),
    ...(states.includes('waiting') ? [transports.map((id) => part(id, 0, WAITING))] : []),
  ].filter((parts) => parts.length > 0);
  const looked = lists.map(
    (parts, n) =>
      `(select transport, state, type, topic, error, id, failed_at from (${parts.map(({ text }) => text).join(' union all ')}) p${n}
        order by died_at desc limit ?)`,
  );
  return {
    text: `select transport, state, cast(type as binary) as by_type, cast(topic as binary) as by_topic, cast(error as binary) as by_error, count(*),
      min(failed_at), max(failed_at), substring(max(concat(failed_at, id)), 27)
      from (${looked.join(' union all ')}) l group by transport, state, by_type, by_topic, by_error`,
    values: lists.flatMap((parts) => [...parts.flatMap(({ values }) => values), look]),
  };
}

export function readFailures(
  rows: readonly Row[],
  { topic, type, look }: FailureRequest,
): Awaited<ReturnType<InspectStore['failures']>> {
  const all = rows.map((row) => readFailure(MYSQL, row));
  const ofState = (state: FailureRow['state']): number =>
    all.reduce((sum, row) => sum + (row.state === state ? row.count : 0), 0);
  return {
    rows: all.filter((row) => (topic ?? row.topic) === row.topic && (type ?? row.type) === row.type),
    looked: ofState('dead') + ofState('waiting'),
    cut: ofState('dead') >= look || ofState('waiting') >= look,
  };
}
