import type { BrokerName, StoreName } from '../settings.js';
import type { BrokerServer } from './broker.js';
import type { DatabaseServer } from './database.js';

export async function openDatabase(store: StoreName, withReplica: boolean): Promise<DatabaseServer> {
  if (store === 'mysql') return (await import('./mysql.js')).ChaosMysql.open();
  if (store === 'postgres') {
    const { ChaosPostgres } = await import('./postgres.js');
    return withReplica ? ChaosPostgres.openTwins() : ChaosPostgres.open();
  }
  const { ChaosMariadb } = await import('./mariadb.js');
  return withReplica ? ChaosMariadb.openTwins() : ChaosMariadb.open();
}

export async function openBroker(broker: BrokerName): Promise<BrokerServer> {
  return ((await import(`./${broker}.js`)) as { open(): Promise<BrokerServer> }).open();
}
