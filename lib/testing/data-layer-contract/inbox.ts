import assert from 'node:assert/strict';
import { uuidV7 } from '../../message/uuid-v7.js';
import type { OnceOutcome } from '../../inbox/index.js';
import type { ContractRunner } from '../transport-contract/harness.js';
import { messageOf, type Application, type DataLayerRun } from './run.js';

interface Suite<Tx extends object> {
  readonly run: DataLayerRun<Tx>;
  readonly app: Application<Tx>;
  readonly it: ContractRunner['it'];
}
const thrown = new Error('rolled back');

/** The consumer's side: effects happen once, and what they enqueue goes out with them. */
export function describeInbox<Tx extends object>(suite: Suite<Tx>): void {
  const { run, it } = suite;

  it('has the effect of a message once, with what it enqueues, in a transaction of its own or the given one', async () => {
    const { app } = suite;
    const [own, given] = [run.row(), run.row()];
    const [ofOwn, ofGiven] = [uuidV7(), uuidV7()];
    const statuses: string[] = [];
    for (const _ of [1, 2, 3]) {
      statuses.push((await app.inbox.once(ofOwn, (tx) => app.write(tx, own))).status);
      const once = await app.transaction((tx) =>
        app.inbox.once(ofGiven, { tx }, async () => {
          await app.insert(tx, given);
          await app.outbox.enqueue(messageOf(given)); // needs no tx here
        }),
      );
      statuses.push(once.status);
    }
    assert.deepEqual(statuses, ['handled', 'handled', ...Array.from({ length: 4 }, () => 'duplicate')]);
    await run.assertOnly(app, [own, given], [own, given]);
  });

  it('has the effect of a handler with @Idempotent once, in a transaction that is around it', async () => {
    const { app } = suite;
    const row = run.row();
    const message = { id: uuidV7(), type: 'contract.row', contentType: 'application/json', encryptionKeyId: null };
    const effect = async (): Promise<void> => {
      await app.insert(app.inbox.tx, row);
      await app.outbox.enqueue(messageOf(row));
    };
    const failed = app.handle(message, () => effect().then(() => Promise.reject(thrown)));
    await assert.rejects(failed, { message: thrown.message });
    await run.assertOnly(app, [row], []);
    for (const _ of [1, 2, 3]) await app.handle(message, effect);
    await run.assertOnly(app, [row], [row]);
  });

  it('takes a message whose effect failed for one that never came, also where the failure is swallowed', async () => {
    const { app } = suite;
    const [row, id] = [run.row(), uuidV7()];
    const failing = async (tx: Tx): Promise<never> => {
      await app.write(tx, row);
      throw thrown;
    };
    await assert.rejects(app.inbox.once(id, failing), { message: thrown.message });
    const swallowed = app.transaction(async (tx) => {
      await assert.rejects(
        app.inbox.once(id, { tx }, () => failing(tx)),
        { message: thrown.message },
      );
    });
    await assert.rejects(swallowed);
    await run.assertOnly(app, [row], []);
    assert.equal((await app.inbox.once(id, (tx) => app.write(tx, row))).status, 'handled');
    await run.assertOnly(app, [row], [row]);
  });

  it('rejects where the database rolls back an effect whose error was swallowed, and has it the next time', async () => {
    const { app } = suite;
    const [row, taken, id] = [run.row(), run.row(), uuidV7()];
    await app.transaction((tx) => app.insert(tx, taken));
    const failing = app.inbox.once(id, async (tx) => {
      await app.insert(tx, row);
      await assert.rejects(Promise.resolve(app.insert(tx, taken)));
    });
    // PostgreSQL commits nothing of such a transaction; MySQL and MariaDB commit what is left of it.
    const first = await failing.then(
      ({ status }) => status,
      () => 'rejected',
    );
    const again = await app.inbox.once(id, (tx) => app.insert(tx, row));
    assert.equal(again.status, first === 'rejected' ? 'handled' : 'duplicate');
    assert.deepEqual(
      (await app.rows()).filter((one) => one === row),
      [row],
    );
  });

  /** Of a deadlock MySQL and MariaDB undo the smaller transaction, as a whole; PostgreSQL chooses either. */
  const deadlock = async (tx: Tx): Promise<void> => {
    const { app } = suite;
    const [mine, theirs] = [run.row(), run.row()];
    await app.insert(tx, mine);
    let other: Promise<unknown> | undefined;
    await new Promise<void>((holds, fails) => {
      other = app.apart(() =>
        app.transaction(async (larger) => {
          for (let i = 0; i < 20; i += 1) await app.insert(larger, run.row());
          await app.insert(larger, theirs);
          holds();
          await app.insert(larger, mine);
        }),
      );
      other.catch(fails);
    });
    const [own] = await Promise.allSettled([app.insert(tx, theirs), other]);
    if (own.status === 'rejected') throw own.reason;
  };
  const twice = async (tx: Tx): Promise<void> => {
    const { app } = suite;
    const taken = run.row();
    await app.apart(() => app.transaction((other) => app.insert(other, taken)));
    await app.insert(tx, taken);
  };

  for (const [name, effect] of Object.entries({ deadlock, 'statement that fails': twice }))
    for (const isOwn of [true, false])
      it(`tells as handled what is there, where a ${name} is swallowed in ${isOwn ? 'its own' : 'the given'} transaction`, async () => {
        const { app } = suite;
        const [row, id] = [run.row(), uuidV7()];
        const swallow = async (tx: Tx): Promise<void> => {
          await app.insert(tx, row);
          await effect(tx).catch(() => undefined);
        };
        const once = isOwn ? app.inbox.once(id, swallow) : app.transaction((tx) => app.inbox.once(id, { tx }, swallow));
        const told = await once.then(
          ({ status }) => status,
          () => 'rejected',
        );
        assert.equal((await app.rows()).includes(row), told === 'handled', told);
        const again = await app.inbox.once(id, (tx) => app.insert(tx, row));
        assert.equal(again.status, told === 'handled' ? 'duplicate' : 'handled');
      });

  it('is not deceived in a batch by a failure that undid what was handled before it', async () => {
    const { app } = suite;
    const [row, id] = [run.row(), uuidV7()];
    const batch = app.transaction(async (tx) => {
      await app.inbox.once(id, { tx }, () => app.insert(tx, row));
      await app.inbox.once(uuidV7(), { tx }, () => deadlock(tx)).catch(() => undefined);
    });
    const told = await batch.then(
      () => 'committed',
      () => 'rejected',
    );
    assert.equal((await app.rows()).includes(row), told === 'committed', told);
  });

  it('lets nobody commit while an effect goes on', async () => {
    const { app } = suite;
    const id = uuidV7();
    let end = (): void => undefined;
    let once: Promise<unknown> | undefined;
    const early = app.transaction(
      (tx) =>
        new Promise<void>((begun) => {
          const effect = (): Promise<void> =>
            new Promise((ended) => {
              end = ended;
              begun();
            });
          once = app.inbox.once(id, { tx }, effect);
        }),
    );
    await assert.rejects(early);
    end();
    await assert.rejects(once as Promise<unknown>);
    assert.equal((await app.inbox.once(id, () => undefined)).status, 'handled');
  });

  for (const end of ['commits', 'fails'] as const)
    it(`lets the second of two deliveries at once wait until the first ${end}`, async () => {
      const { app } = suite;
      const [row, id] = [run.row(), uuidV7()];
      let second: Promise<OnceOutcome<unknown>> | undefined;
      const first = app.inbox.once(id, async (tx) => {
        await app.insert(tx, row);
        second = app.apart(() => app.inbox.once(id, (own) => app.insert(own, row)));
        if (end === 'fails') throw thrown;
      });
      if (end === 'fails') await assert.rejects(first, { message: thrown.message });
      else assert.equal((await first).status, 'handled');
      assert.equal((await second)?.status, end === 'fails' ? 'handled' : 'duplicate');
      assert.deepEqual(
        (await app.rows()).filter((one) => one === row),
        [row],
      );
    });

  it('tells the second of two deliveries at once, and may leave it to the next delivery', async () => {
    const { app } = suite;
    const [row, id] = [run.row(), uuidV7()];
    const refuse = { onConcurrent: 'refuse' } as const;
    await app.inbox.once(id, refuse, async (tx) => {
      await app.insert(tx, row);
      const second = app.apart(() => app.inbox.once(id, refuse, (own) => app.insert(own, row)));
      await assert.rejects(second, { code: 'IN_PROGRESS' });
    });
    assert.equal((await app.inbox.once(id, refuse, (own) => app.insert(own, row))).status, 'duplicate');
    assert.deepEqual(
      (await app.rows()).filter((one) => one === row),
      [row],
    );
  });

  it('handles a message that comes many times at once exactly once', async () => {
    const { app } = suite;
    const rows = Array.from({ length: 10 }, () => run.row());
    const deliveries = rows.flatMap((row) => Array.from({ length: 5 }, () => row));
    const ids = new Map(rows.map((row) => [row, uuidV7()]));
    const outcomes = await Promise.all(
      deliveries.map((row) => app.inbox.once(ids.get(row) as string, (tx) => app.insert(tx, row))),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'handled').length, rows.length);
    assert.deepEqual((await app.rows()).filter((row) => rows.includes(row)).length, rows.length);
  });

  it('drops what is older than what was handled of its key', async () => {
    const { app } = suite;
    const handled: number[] = [];
    const key = `key-${run.row()}`;
    for (const version of [1, 2, 3, 2, 3, 4]) {
      const message = { id: uuidV7(), type: 'contract.row', contentType: 'application/json', key };
      await app.inbox.once(message, { latest: version }, () => handled.push(version));
    }
    assert.deepEqual(handled, [1, 2, 3, 4]);
  });
}
