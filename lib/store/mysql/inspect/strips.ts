import type { RowFilter, StoredState } from '../../inspect-store.js';
import type { TableNames } from '../../names.js';
import type { PositionPart } from '../../position.js';
import { keyBytes } from '../../../message/key-bytes.js';
import { DEAD, stateNumber } from '../../parked-state.js';
import type { Conditions } from './text-conditions.js';
import { ROW_COLUMNS } from './rows.js';

interface Part extends Conditions {
  /** Table and index. */
  readonly from: string;
}
/** Rows of one state, in the order of an index, which may have them in several parts. */
export interface Strip {
  readonly columns: string;
  readonly parts: readonly Part[];
  readonly order: readonly { readonly name: string; readonly part: PositionPart }[];
  /** Whether the rows of a part may be more than a page looks at. */
  readonly isLong: boolean;
}

/** @param transports those that the filter means, and of a key its bucket */
export function stripOf(
  state: StoredState,
  { key, transport }: RowFilter,
  { ready, parked, archive }: TableNames,
  { transports, bucket }: { readonly transports: readonly number[]; readonly bucket: number | undefined },
): Strip {
  const one = transport === undefined ? [] : [transport];
  const ofOne = transport === undefined ? [] : ['transport = ?'];
  if (state === 'ready') {
    const parts =
      bucket === undefined
        ? [{ from: `${ready} force index (by_seq)`, conditions: ofOne, values: one }]
        : transports.map((id) => inBucket(`${ready} force index (primary)`, id, bucket));
    return { columns: ROW_COLUMNS.ready, parts, order: [{ name: 'seq', part: 'number' }], isLong: true };
  }
  if (state === 'published') {
    const part = { from: `${archive} force index (by_time)`, conditions: ofOne, values: one };
    const order = [
      { name: 'published_at', part: 'time' },
      { name: 'archive_id', part: 'number' },
    ] as const;
    return { columns: ROW_COLUMNS.archive, parts: [part], order, isLong: true };
  }
  const isOfKey = key !== undefined && bucket !== undefined;
  const parts = isOfKey
    ? transports.map((id) => ofKey(parked, id, bucket, key, state))
    : transports.flatMap((id) => ofState(parked, id, state));
  const died = state === 'dead' ? [{ name: 'died_at', part: 'time' } as const] : [];
  return {
    columns: ROW_COLUMNS.parked,
    parts,
    order: [...died, { name: 'parked_id', part: 'number' }],
    isLong: !isOfKey,
  };
}

const inBucket = (from: string, transport: number, bucket: number): Part => ({
  from,
  conditions: ['transport = ?', 'bucket = ?'],
  values: [transport, bucket],
});

function ofKey(parked: string, transport: number, bucket: number, key: string, state: StoredState): Part {
  const place = inBucket(`${parked} force index (by_key)`, transport, bucket);
  return {
    from: place.from,
    conditions: [...place.conditions, 'blocking in (0, 1)', '`key` = ?', 'state = ?'],
    values: [...place.values, keyBytes(key), stateNumber(state as 'dead')],
  };
}

/** Only what is dead has died, and can have been announced. */
function ofState(parked: string, transport: number, state: StoredState): Part[] {
  const number = stateNumber(state as 'dead');
  const conditions = ['transport = ?', 'state = ?', 'announced = ?', ...(number === DEAD ? [] : ['died_at is null'])];
  return (number === DEAD ? [0, 1] : [0]).map((announced) => ({
    from: `${parked} force index (by_state)`,
    conditions,
    values: [transport, number, announced],
  }));
}

const valueOf = (text: string, part: PositionPart): unknown => (part === 'number' ? BigInt(text) : text);

/** Behind a position, or up to it: by the first column an index finds the place. */
export function compared({ order }: Strip, sign: '>' | '<=', position: readonly string[]): Conditions {
  const [first, second] = order;
  const [one, two] = order.map(({ part }, n) => valueOf(position[n] as string, part));
  if (first === undefined) return { conditions: [], values: [] };
  if (second === undefined) return { conditions: [`${first.name} ${sign} ?`], values: [one] };
  const strict = sign === '>' ? '>' : '<';
  return {
    conditions: [`${first.name} ${strict}= ?`, `(${first.name} ${strict} ? or ${second.name} ${sign} ?)`],
    values: [one, one, two],
  };
}
