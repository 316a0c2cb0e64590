import type { RowRequest } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import { ALWAYS, condition, whereOf } from '../../sql/conditions.js';
import type { Place } from '../../sql/lookup.js';
import { sortedBy, type OrderColumn, type PartRead, type Strip, type StripPlaces } from '../../sql/pages.js';
import { select, type Plan, type Select } from '../../sql/timed-selects.js';
import { placeArrays, PLACES } from './lookup.js';
import { ARCHIVE_ORDER, ROW_COLUMNS } from './rows.js';

const SEQ: OrderColumn = { name: 'o.seq', part: 'number' };
const ID: OrderColumn = { name: 'o.parked_id', part: 'number' };
const PLACE: readonly OrderColumn[] = ['o.transport', 'o.bucket'].map((name) => ({ name, part: 'number' }));
const isOf = (state: number) => condition(`o.state = ${state}`);

export function stripOf(
  { state, key, ids }: RowRequest,
  { ready, parked, archive }: TableNames,
  { ordering }: Pick<StoreSettings, 'ordering'>,
  { places }: StripPlaces,
): Strip {
  const [sorted, inBuckets] = [whole, each(places)];
  const ofParked = { columns: ROW_COLUMNS.parked, isLong: true };
  const all = { dense: ALWAYS, sparse: ALWAYS, isLong: true };
  switch (state) {
    case 'ready':
      return { ...all, columns: ROW_COLUMNS.ready, order: [SEQ, ...PLACE], ...inBuckets(ready) };
    case 'published':
      return { ...all, columns: ROW_COLUMNS.archive, order: ARCHIVE_ORDER, ...sorted(archive) };
    case 'parked':
      // By ids the index of these, and a sort.
      return {
        ...all,
        columns: ROW_COLUMNS.parked,
        order: [ID],
        isLong: ids === undefined,
        ...sorted(parked, ids === undefined ? undefined : 'by index'),
      };
    case 'dead': {
      const order: OrderColumn[] = [{ name: 'o.died_at', part: 'time' }, ID];
      return { ...ofParked, dense: condition('o.died_at is not null'), sparse: isOf(DEAD), order, ...sorted(parked) };
    }
    case 'blocked': {
      // In a global order rows without a key block too, and no index has them all by their number.
      if (ordering === 'global' || ordering === 'none')
        return { ...ofParked, dense: ALWAYS, sparse: isOf(BLOCKED), order: [ID], ...sorted(parked) };
      const byKey: OrderColumn[] = key === undefined ? [{ name: 'o.key', part: 'text' }] : [];
      const order = [...byKey, SEQ, ID];
      return { ...ofParked, dense: condition('o.blocking'), sparse: isOf(BLOCKED), order, ...inBuckets(parked) };
    }
    default: {
      const sparse = isOf(state === 'waiting' ? WAITING : SCHEDULED);
      const order: OrderColumn[] = [{ name: 'o.due_at', part: 'time' }, SEQ, ID];
      return { ...ofParked, dense: condition('o.due_at is not null'), sparse, order, ...inBuckets(parked) };
    }
  }
}

const ofPart = (table: string, { columns, where, ...sorted }: PartRead): string =>
  `select ${columns} from ${table} o${whereOf(where)}${sortedBy(sorted)} limit ? offset ?`;

function whole(table: string, plan?: Plan): Pick<Strip, 'parts' | 'read'> {
  const read = (part: PartRead): Select => ({
    ...select(ofPart(table, part), ...part.where.values, part.limit, part.offset),
    ...(plan === undefined ? {} : { plan }),
  });
  return { parts: 1, read };
}

/** The index begins with transport and bucket: each bucket is looked at for itself. */
function each(places: readonly Place[]): (table: string) => Pick<Strip, 'parts' | 'read'> {
  return (table) => ({
    parts: places.length,
    read: (part, limit) => {
      const { conditions, values } = part.where;
      const where = { conditions: ['o.transport = p.t', 'o.bucket = p.b', ...conditions], values };
      const order = part.order.map((_, n) => `s.k${n}`);
      return select(
        `select s.* from ${PLACES} cross join lateral (${ofPart(table, { ...part, where })}) s${sortedBy({ ...part, order })} limit ?`,
        ...[...placeArrays(places), ...values, part.limit, part.offset, limit],
      );
    },
  });
}
