import type { TableNames } from '../../names.js';
import type { BulkSql } from '../../sql/bulk.js';
import { utc } from '../inspect/rows.js';

export const bulkSql = ({ parked }: TableNames): BulkSql => ({
  from: { key: `${parked} o`, ids: `${parked} o` },
  bounds: `(select min(parked_id) from ${parked}), (select max(parked_id) from ${parked}), ${utc('clock_timestamp()')}`,
});
