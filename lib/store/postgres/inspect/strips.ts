import type { RowFilter, StoredState } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { PositionPart } from '../../position.js';
import { BLOCKED, DEAD, SCHEDULED, WAITING } from '../../parked-state.js';
import { ROW_COLUMNS, utc } from './rows.js';

interface OrderColumn {
  readonly name: string;
  readonly type: 'bigint' | 'smallint' | 'timestamptz' | 'text';
}
/** Rows of one state, in the order of an index. */
export interface Strip {
  readonly table: string;
  readonly columns: string;
  /** What all rows of the index have: a page looks at a bounded number of them. */
  readonly dense: string;
  /** What the rows of this state have besides. */
  readonly sparse: string;
  readonly order: readonly OrderColumn[];
  /** The index begins with transport and bucket: each bucket is looked at for itself. */
  readonly perBucket: boolean;
}

const TIES = { seq: { name: 'o.seq', type: 'bigint' }, id: { name: 'o.parked_id', type: 'bigint' } } as const;

export function stripOf(
  state: StoredState,
  { key }: Pick<RowFilter, 'key'>,
  { ready, parked, archive }: TableNames,
  { ordering }: Pick<StoreSettings, 'ordering'>,
): Strip {
  const place = ['o.transport', 'o.bucket'].map((name): OrderColumn => ({ name, type: 'smallint' }));
  const ofParked = { table: parked, columns: ROW_COLUMNS.parked };
  switch (state) {
    case 'ready':
      return {
        table: ready,
        columns: ROW_COLUMNS.ready,
        dense: 'true',
        sparse: 'true',
        order: [TIES.seq, ...place],
        perBucket: true,
      };
    case 'published': {
      const order: OrderColumn[] = [{ name: 'o.published_at', type: 'timestamptz' }, ...place, TIES.seq];
      return { table: archive, columns: ROW_COLUMNS.archive, dense: 'true', sparse: 'true', order, perBucket: false };
    }
    case 'dead': {
      const order: OrderColumn[] = [{ name: 'o.died_at', type: 'timestamptz' }, TIES.id];
      return { ...ofParked, dense: 'o.died_at is not null', sparse: `o.state = ${DEAD}`, order, perBucket: false };
    }
    case 'blocked': {
      const sparse = `o.state = ${BLOCKED}`;
      // In a global order rows without a key block too, and no index has them all by their number.
      if (ordering === 'global' || ordering === 'none')
        return { ...ofParked, dense: 'true', sparse, order: [TIES.id], perBucket: false };
      const byKey: OrderColumn[] = key === undefined ? [{ name: 'o.key', type: 'text' }] : [];
      return { ...ofParked, dense: 'o.blocking', sparse, order: [...byKey, TIES.seq, TIES.id], perBucket: true };
    }
    default: {
      const sparse = `o.state = ${state === 'waiting' ? WAITING : SCHEDULED}`;
      const order: OrderColumn[] = [{ name: 'o.due_at', type: 'timestamptz' }, TIES.seq, TIES.id];
      return { ...ofParked, dense: 'o.due_at is not null', sparse, order, perBucket: true };
    }
  }
}

export const shapeOf = ({ order }: Strip): PositionPart[] =>
  order.map(({ type }) => (type === 'timestamptz' ? 'time' : type === 'text' ? 'text' : 'number'));
/** As text that is read back as it was. */
export const positionOf = ({ order }: Strip): string =>
  order.map(({ name, type }) => (type === 'timestamptz' ? utc(name) : name)).join(', ');
/** @param sign `>` or `<=`; a value for each column follows */
export const compared = ({ order }: Strip, sign: '>' | '<='): string =>
  `(${order.map(({ name }) => name).join(', ')}) ${sign} (${order.map(({ type }) => `?::${type}${type === 'text' ? ' collate "C"' : ''}`).join(', ')})`;
