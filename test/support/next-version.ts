import type { OutboxMigrationOptions } from 'nestjs-outbox/typeorm';
import { migrationsOf, type Upgrade } from '../../lib/data-layers/typeorm/migrations.js';
import { tableNames, type SchemaDefinition } from '../../lib/store/names.js';

/** A version of the tables that there is only in tests: a column of the hot table, and an index of one that others write into. */
export const NEXT: Upgrade = {
  version: 2,
  time: '1799999999999',
  script: {
    postgres: (definition) => {
      const names = tableNames(definition, '"');
      return {
        up: [
          `alter table ${names.ready} add column if not exists next text`,
          `create index if not exists ${names.index('dedup_next')} on ${names.dedup} (id, created_at)`,
        ],
        down: [
          `drop index if exists ${names.object('dedup_next')}`,
          `alter table ${names.ready} drop column if exists next`,
        ],
      };
    },
    mysql: (definition) => {
      const { ready, dedup } = tableNames(definition, '`');
      const column = thereIs(definition, 'columns', 'ready', 'column_name');
      const key = thereIs(definition, 'statistics', 'dedup', 'index_name');
      return {
        up: [
          ...when(`not ${column}`, `alter table ${ready} add column next text null`),
          ...when(`not ${key}`, `alter table ${dedup} add key next (id, created_at), algorithm = inplace, lock = none`),
        ],
        down: [
          ...when(key, `alter table ${dedup} drop key next`),
          ...when(column, `alter table ${ready} drop column next`),
        ],
      };
    },
  },
};

/** Its migration alone, as it comes to tables of the version before. */
export const toNext = (options: OutboxMigrationOptions, upgrade = NEXT) => migrationsOf(options, [upgrade]).slice(1);

/** MariaDB and MySQL have no words in common for "if it is not there". */
const when = (condition: string, change: string): string[] => [
  `select if(${condition}, '${change}', 'do 0') into @outbox_change`,
  'prepare outbox_change from @outbox_change',
  'execute outbox_change',
  'deallocate prepare outbox_change',
];

const thereIs = ({ schema, prefix }: SchemaDefinition, list: string, table: string, name: string): string =>
  `exists (select 1 from information_schema.${list} where table_schema = '${schema}' and table_name = '${prefix}${table}' and ${name} = 'next')`;
