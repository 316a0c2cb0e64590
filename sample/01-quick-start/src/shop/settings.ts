export interface Settings {
  readonly database: string;
  readonly schema: string;
  readonly port: number;
  readonly ledger: string;
  /** What topics and queues of this run begin with. */
  readonly prefix: string;
  readonly kafka: string | undefined;
  readonly rabbitmq: string | undefined;
}

/** Short, because somebody is watching: after a crash, another relay waits for the end of the dead one's lease. */
export const LEASE = 10_000;

/** From the environment, as the processes of a deployment would get them. */
export function settings(env: NodeJS.ProcessEnv = process.env): Settings {
  return {
    database: env['DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
    schema: env['SHOP_SCHEMA'] ?? 'quick_start',
    port: Number(env['PORT'] ?? 3000),
    ledger: env['SHOP_LEDGER'] ?? 'warehouse.jsonl',
    prefix: env['SHOP_PREFIX'] ?? '',
    kafka: env['SHOP_KAFKA'],
    rabbitmq: env['SHOP_RABBITMQ'],
  };
}
