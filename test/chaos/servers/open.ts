import type { BrokerName, StoreName } from '../settings.js';
import type { BrokerServer } from './broker.js';
import type { DatabaseServer } from './database.js';

export async function openDatabase(store: StoreName): Promise<DatabaseServer> {
  if (store === 'postgres') return (await import('./postgres.js')).ChaosPostgres.open();
  return (await import('./mariadb.js')).ChaosMariadb.open();
}

export async function openBroker(broker: BrokerName): Promise<BrokerServer> {
  if (broker === 'rabbitmq') return (await import('./rabbitmq.js')).ChaosRabbitMq.open();
  return (await import('./kafka.js')).ChaosKafka.open();
}
