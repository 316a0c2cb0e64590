import type { DynamicModule, INestApplicationContext } from '@nestjs/common';
import type { OutboxDataLayer, TransactionHandle } from '../../../lib/index.js';
import { readSettings, type ProcessSettings } from '../settings.js';

type Row = Readonly<Record<string, unknown>>;

/** How a process comes to its database: each has a file `layer-….ts` with `open`. */
export interface ChaosLayer {
  readonly imports: DynamicModule[];
  readonly dataLayer?: OutboxDataLayer;
  use(application: INestApplicationContext): ChaosDatabase;
}
export interface ChaosDatabase {
  transaction(work: (tx: TransactionHandle) => Promise<void>): Promise<void>;
  /** A whole text, without parameters; in the transaction, or outside of any. */
  query(statement: string, tx?: TransactionHandle): Promise<readonly Row[]>;
}

export async function openLayer(poolSize: number): Promise<ChaosLayer> {
  const settings = readSettings();
  const { open } = (await import(`./layer-${settings.layer}.js`)) as {
    open(settings: ProcessSettings, poolSize: number): ChaosLayer;
  };
  return open(settings, poolSize);
}

/** For `OutboxModule` and `InboxModule`. */
export const given = ({ dataLayer }: ChaosLayer) => (dataLayer === undefined ? {} : { dataLayer });
