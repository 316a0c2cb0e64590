import type { RowRequest, StoredState } from '../../inspect-store.js';
import type { TableNames } from '../../names.js';
import { keyBytes } from '../../../message/key-bytes.js';
import { DEAD, stateNumber } from '../../parked-state.js';
import { allOf, ALWAYS, condition, whereOf, type Conditions } from '../../sql/conditions.js';
import { sortedBy, type OrderColumn, type PartRead, type Strip, type StripPlaces } from '../../sql/pages.js';
import { select, type Select } from '../../sql/timed-selects.js';
import { ARCHIVE_ORDER, ROW_COLUMNS } from './rows.js';

interface Part {
  /** Table and index. */
  readonly from: string;
  readonly where: Conditions;
}

export function stripOf(
  { state, key, ids }: RowRequest,
  { ready, parked, archive }: TableNames,
  { transports, bucket }: StripPlaces,
): Strip {
  const all = { dense: ALWAYS, sparse: ALWAYS, isLong: true };
  const seq: OrderColumn = { name: 'seq', part: 'number' };
  if (state === 'ready') {
    const inPlace = `${ready} force index (primary)`;
    const parts =
      bucket === undefined
        ? [{ from: `${ready} force index (by_seq)`, where: ALWAYS }]
        : transports.map((id) => inBucket(inPlace, id, bucket));
    return { ...all, columns: ROW_COLUMNS.ready, order: [seq], ...merged(parts) };
  }
  if (state === 'published') {
    const parts = [{ from: `${archive} force index (by_time)`, where: ALWAYS }];
    return { ...all, columns: ROW_COLUMNS.archive, order: ARCHIVE_ORDER, ...merged(parts) };
  }
  if (state === 'parked') {
    const parts = [{ from: `${parked} force index (${ids === undefined ? 'primary' : 'by_id'})`, where: ALWAYS }];
    const order: OrderColumn[] = [{ name: 'parked_id', part: 'number' }];
    return { ...all, columns: ROW_COLUMNS.parked, order, isLong: ids === undefined, ...merged(parts) };
  }
  const isOfKey = key !== undefined && bucket !== undefined;
  const parts = isOfKey
    ? transports.map((id) => ofKey(parked, id, bucket, key, state))
    : transports.flatMap((id) => ofState(parked, id, state));
  const died: OrderColumn[] = state === 'dead' ? [{ name: 'died_at', part: 'time' }] : [];
  const order: OrderColumn[] = [...died, { name: 'parked_id', part: 'number' }];
  return { ...all, columns: ROW_COLUMNS.parked, order, isLong: !isOfKey, ...merged(parts) };
}

function merged(parts: readonly Part[]): Pick<Strip, 'parts' | 'read'> {
  const read = ({ columns, where, limit: most, offset, ...sorted }: PartRead, limit: number): Select => {
    const wheres = parts.map((part) => allOf([part.where, where]));
    const looks = parts.map(
      ({ from }, n) =>
        `select ${columns} from ${from}${whereOf(wheres[n] as Conditions)}${sortedBy(sorted)} limit ? offset ?`,
    );
    const values = wheres.flatMap((part) => [...part.values, most, offset]);
    if (parts.length === 1) return select(looks[0] as string, ...values);
    const order = sorted.order.map((_, n) => `k${n}`);
    const all = looks.map((look) => `(${look})`).join(' union all ');
    return select(`select * from (${all}) f${sortedBy({ ...sorted, order })} limit ?`, ...values, limit);
  };
  return { parts: parts.length, read };
}

const inBucket = (from: string, transport: number, bucket: number): Part => ({
  from,
  where: allOf([condition('transport = ?', transport), condition('bucket = ?', bucket)]),
});

function ofKey(parked: string, transport: number, bucket: number, key: string, state: StoredState): Part {
  const { from, where } = inBucket(`${parked} force index (by_key)`, transport, bucket);
  const more = [condition('blocking in (0, 1)'), condition('`key` = ?', keyBytes(key))];
  return { from, where: allOf([where, ...more, condition('state = ?', stateNumber(state as 'dead'))]) };
}

/** Only what is dead has died, and can have been announced. */
function ofState(parked: string, transport: number, state: StoredState): Part[] {
  const number = stateNumber(state as 'dead');
  const place = [condition('transport = ?', transport), condition('state = ?', number)];
  const isDead = number === DEAD;
  return (isDead ? [0, 1] : [0]).map((announced) => ({
    from: `${parked} force index (by_state)`,
    where: allOf([...place, condition('announced = ?', announced), isDead ? ALWAYS : condition('died_at is null')]),
  }));
}
