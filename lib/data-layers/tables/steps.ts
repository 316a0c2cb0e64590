import { definitionOf, invalid, type OutboxSchemaOptions } from '../drivers/outbox-sql.js';
import { changeVersion, dropTables, makeTables, type Change, type Upgrade, type Way, type Where } from './change.js';

/** In the order of their versions, and behind the first migration: none yet. */
const UPGRADES: readonly Upgrade[] = [];

export interface StepOptions extends OutboxSchemaOptions {
  dropUnpublished?: boolean;
}
/** What leads the tables of one outbox to a version, and back: a migration, whoever runs it. */
export interface Step {
  /** The middle keeps several outboxes of one database apart. */
  readonly name: string;
  /** Which version it leads to; the first one makes the tables of the last version. */
  readonly version: number;
  run(where: Where, way: Way): Promise<void>;
}
/** The first makes the tables of the last version; one that finds its version there has nothing to do. */
export function stepsOf(options: StepOptions, upgrades = UPGRADES): Step[] {
  const { dropUnpublished = false } = options;
  if (typeof dropUnpublished !== 'boolean') throw invalid('dropUnpublished', dropUnpublished, 'true or false');
  const definition = definitionOf(options);
  const step = (
    name: string,
    time: string,
    version: number,
    run: (change: Change, way: Way) => Promise<void>,
  ): Step => ({
    name: `${name}_${definition.schema ?? ''}_${definition.prefix}${time}`,
    version,
    run: (where, way) => run({ ...where, tables: { ...definition, schema: definition.schema ?? where.schema } }, way),
  });
  return [
    step('OutboxTables', '1795219200000', 1, (change, way) =>
      way === 'up' ? makeTables(change) : dropTables(change, dropUnpublished),
    ),
    ...upgrades.map((upgrade) =>
      step(`OutboxVersion${upgrade.version}`, upgrade.time, upgrade.version, (change, way) =>
        changeVersion(change, upgrade, way),
      ),
    ),
  ];
}
