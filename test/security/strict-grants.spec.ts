import { OutboxDispatcher, OutboxService } from '../../lib/index.js';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { blocksIn } from '../readme/documents.js';
import { runOn } from '../readme/sql.js';
import { runScript } from '../support/databases.js';
import { describeWith, DATABASES } from '../support/services.js';
import { Logins } from './logins.js';

describe.each(DATABASES)('rights of a strict order on %s', (kind) => {
  describeWith(kind, 'as they are documented', () => {
    const logins = new Logins(kind, { ordering: 'strict' });
    beforeEach(async () => {
      await logins.begin();
      const { admin, database } = logins;
      // As another migration tool would make them: without a schema in their names.
      const { up } = outboxSql(kind === 'postgres' ? 'postgres' : 'mysql', { ordering: 'strict' });
      await runScript(kind, admin, up);
      await (await logins.start(database.options, { relay: 'manual' })).close();
    });
    afterEach(() => logins.end());
    const as = (documented: string, strict = true) => logins.as([documented], strict);

    it('are enough: applications, plain SQL and relays, in the order of the commits', async () => {
      const user = await as('shop_api');
      const outbox = (await logins.start(user, { relay: false })).get(OutboxService);
      const message = (type: string) => ({ type, key: 'order-4713', payload: {} });
      await outbox.transaction(async (manager) => {
        // On PostgreSQL everybody may make temporary tables; one with our name must not get what is moved.
        if (kind === 'postgres') await manager.query('create temporary table outbox_ready (id int)');
        await outbox.enqueue(message('before'), { dedupKey: 'a' });
      });
      const writer = await logins.connect(await as('shop_writer'));
      if (kind !== 'postgres')
        await runOn(
          writer,
          blocksIn('sql', 'mariadb strict').filter(({ text }) => text.startsWith('start')),
        );
      else
        await writer.query(`insert into outbox_messages (topic, key, type) values ('orders', 'order-4713', 'orders')`);
      await outbox.enqueueOutsideTransaction(message('after'));
      const relay = await logins.start(await as('shop_relay'), { relay: 'manual' });
      await relay.get(OutboxService).enqueueOutsideTransaction(message('own'));
      await relay.get(OutboxDispatcher).drain();
      expect(logins.transport.published.map(({ type }) => type)).toEqual(['before', 'orders', 'after', 'own']);
    });

    it('are needed, and are all', async () => {
      const user = await as('shop_api');
      const refused =
        kind === 'postgres'
          ? ['select tx from outbox_staged', 'delete from outbox_staged', `update outbox_staged set tx = '1'`]
          : [
              'delete from outbox_key_locks',
              'insert into outbox_key_locks (slot) values (1)',
              'truncate outbox_key_locks',
            ];
      const needed =
        kind === 'postgres'
          ? `insert into outbox_staged (bucket, id, topic, type) values (1, gen_random_uuid(), 't', 't')`
          : 'select slot from outbox_key_locks where slot = 1 for update';
      expect(await logins.allowed(user, [...refused, needed])).toEqual([`${needed}: undefined`]);
      expect(await logins.allowed(await as('shop_api', false), [needed])).toEqual([]);
    });
  });
});
