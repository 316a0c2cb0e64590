import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import type { ProcessSettings } from '../settings.js';
import type { ChaosLayer } from './layer.js';

/** Found by the outbox itself. */
export function open({ store, databaseUrl }: ProcessSettings, poolSize: number): ChaosLayer {
  const common = { url: databaseUrl, retryAttempts: 0, poolSize };
  const options =
    store === 'postgres'
      ? { ...common, type: store, connectTimeoutMS: 3_000, poolErrorHandler: () => undefined }
      : { ...common, type: store, timezone: 'Z', connectTimeout: 3_000 };
  return {
    imports: [TypeOrmModule.forRoot(options)],
    use(application) {
      const dataSource = application.get(DataSource);
      return {
        transaction: (work) => dataSource.transaction(work),
        query: (statement, tx) => ((tx as EntityManager | undefined) ?? dataSource).query(statement),
      };
    },
  };
}
