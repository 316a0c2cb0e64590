import type { TableNames } from '../../names.js';
import type { BulkSql } from '../../sql/bulk.js';

export const bulkSql = ({ parked }: TableNames): BulkSql => ({
  from: { key: `${parked} o force index (primary)`, ids: `${parked} o force index (by_id)` },
  bounds: `(select min(parked_id) from ${parked}), (select max(parked_id) from ${parked}), utc_timestamp(6)`,
});
