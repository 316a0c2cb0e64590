import { EntitySchema, EventSubscriber } from 'typeorm';

class Never1795219200001 {
  async up(): Promise<void> {
    throw new Error('ran');
  }
  async down(): Promise<void> {}
}
@EventSubscriber()
class Never {
  constructor() {
    throw new Error('subscribed');
  }
}
const Thing = new EntitySchema({ name: 'thing', columns: { id: { type: Number, primary: true } } });

/** All that acts on a database when a DataSource with these options connects to it: the relay's own must not. */
export const HOSTILE = {
  entities: [Thing],
  dropSchema: true,
  synchronize: true,
  migrationsRun: true,
  migrations: [Never1795219200001],
  subscribers: [Never],
};
