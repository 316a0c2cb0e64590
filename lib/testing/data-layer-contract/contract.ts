import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ContractRunner } from '../transport-contract/harness.js';
import type { DataLayerHarness } from './harness.js';
import { describeInbox } from './inbox.js';
import { DataLayerRun, messageOf, PATIENCE, type Application } from './run.js';

/**
 * Checks that a data layer keeps its promises, on a real database: a message is committed with the rows of its transaction or not at
 * all, whatever becomes of the transaction. Runs in any runner with `describe`, `it`, `beforeAll` and `afterAll`, as globals or handed
 * over.
 */
export function describeDataLayerContract<Tx extends object>(
  name: string,
  harness: DataLayerHarness<Tx>,
  runner: ContractRunner = globalThis as unknown as ContractRunner,
): void {
  const { describe, beforeAll, afterAll } = runner;
  describe(`data layer contract: ${name}`, () => {
    const run = new DataLayerRun(harness);
    const suite = { run, app: undefined as unknown as Application<Tx>, it: runner.it };
    beforeAll(async () => {
      await harness.start?.();
      suite.app = await run.open(5);
    });
    afterAll(() => run.close());
    describeEnds(suite);
    describeScope(suite);
    describeRefusals(suite);
    describeFailures(suite);
    describeLoad(suite);
    describe('inbox', () => describeInbox(suite));
  });
}

interface Suite<Tx extends object> {
  readonly run: DataLayerRun<Tx>;
  app: Application<Tx>;
  readonly it: ContractRunner['it'];
}
const thrown = new Error('rolled back');
/** A UUIDv7. */
const NAMED = '01990000-0000-7000-8000-000000000001';
const REFUSED = { code: 'TRANSACTION_REQUIRED' };

function describeEnds<Tx extends object>(suite: Suite<Tx>): void {
  const { run, it } = suite;

  it('commits a message with the rows of its transaction, and tells of it once they are committed', async () => {
    const { app } = suite;
    const row = run.row();
    const id = await app.transaction(async (tx) => {
      const written = await app.write(tx, row);
      await run.assertOnly(app, [row], []);
      return written;
    });
    while (!app.told.includes(id)) await once(app.events, 'enqueued', { signal: AbortSignal.timeout(PATIENCE) });
    await run.assertOnly(app, [row], [row]);
  });

  it('takes a message back with its transaction', async () => {
    const { app } = suite;
    const row = run.row();
    const failed = app.transaction(async (tx) => {
      await app.write(tx, row);
      throw thrown;
    });
    await assert.rejects(failed, { message: thrown.message });
    await run.assertOnly(app, [row], []);
  });

  it('writes with outbox.with(tx) what is committed and taken back with the transaction', async () => {
    const { app } = suite;
    const [committed, back] = [run.row(), run.row()];
    const write = async (tx: Tx, row: number): Promise<void> => {
      await app.insert(tx, row);
      await app.outbox.with(tx).enqueue(messageOf(row));
    };
    await app.transaction((tx) => write(tx, committed));
    const failed = app.transaction((tx) => write(tx, back).then(() => Promise.reject(thrown)));
    await assert.rejects(failed, { message: thrown.message });
    await run.assertOnly(app, [committed, back], [committed]);
  });

  it('keeps the bytes of a payload', async () => {
    const { app } = suite;
    const bytes = `"${String.fromCodePoint(...Array.from({ length: 94 }, (_, n) => n + 0xa0))}\\u0000'\`;$1?"`;
    const payload = new TextEncoder().encode(bytes);
    await app.transaction((tx) => app.outbox.enqueue({ type: 'contract.bytes', payload }, { tx }));
    assert.equal((await app.published()).includes(JSON.parse(bytes)), true);
  });

  it('writes an array at once, and outside of a transaction when that is said', async () => {
    const { app } = suite;
    const [one, other, alone] = [run.row(), run.row(), run.row()];
    await app.transaction(async (tx) => {
      for (const row of [one, other]) await app.insert(tx, row);
      await app.outbox.enqueue([messageOf(one), messageOf(other)], { tx });
    });
    await app.transaction((tx) => app.insert(tx, alone));
    await app.outbox.enqueueOutsideTransaction(messageOf(alone));
    await run.assertOnly(app, [one, other, alone], [one, other, alone]);
  });

  it('writes messages that are enqueued at once', async () => {
    const { app } = suite;
    const rows = Array.from({ length: 5 }, () => run.row());
    await app.transaction(async (tx) => {
      await Promise.all(rows.map((row) => app.outbox.enqueue(messageOf(row), { tx })));
      for (const row of rows) await app.insert(tx, row);
    });
    await run.assertOnly(app, rows, rows);
  });
}

function describeScope<Tx extends object>(suite: Suite<Tx>): void {
  const { run, it } = suite;

  it('needs no handle inside outbox.transaction and outbox.bind', async () => {
    const { app } = suite;
    const [committed, back, bound] = [run.row(), run.row(), run.row()];
    await app.outbox.transaction(async (tx) => {
      await app.insert(tx, committed);
      await app.outbox.enqueue(messageOf(committed));
      await app.outbox.transaction((same) => app.write(same, bound));
    });
    const failed = app.outbox.transaction(async (tx) => {
      await app.insert(tx, back);
      await app.outbox.enqueue(messageOf(back));
      throw thrown;
    });
    await assert.rejects(failed, { message: thrown.message });
    const other = run.row();
    await app.transaction(async (tx) => {
      await app.insert(tx, other);
      await app.outbox.bind(tx, () => app.outbox.enqueue(messageOf(other)));
    });
    const all = [committed, back, bound, other];
    await run.assertOnly(app, all, [committed, bound, other]);
  });

  it('takes a transaction of another pool, with a layer of its own, that leads into the same database', async () => {
    const { app } = suite;
    const [committed, bound, back, other] = [run.row(), run.row(), run.row(), await run.harness.open(1)];
    const write = async (tx: Tx, row: number, enqueue: () => Promise<unknown>): Promise<void> => {
      await other.insert(tx, row);
      await enqueue();
    };
    const enqueued = (tx: Tx, row: number) => write(tx, row, () => app.outbox.enqueue(messageOf(row), { tx }));
    const inScope = () => app.outbox.transaction(() => app.outbox.enqueue(messageOf(bound)));
    try {
      await other.transaction((tx) => enqueued(tx, committed));
      await other.transaction((tx) => write(tx, bound, () => app.outbox.bind(tx, inScope)));
      const failed = other.transaction((tx) => enqueued(tx, back).then(() => Promise.reject(thrown)));
      await assert.rejects(failed, { message: thrown.message });
    } finally {
      await other.close();
    }
    await run.assertOnly(app, [committed, bound, back], [committed, bound]);
  });

  if (run.harness.noSavepoints !== undefined) return;
  it('takes back with a savepoint what was written behind it', async () => {
    const { app } = suite;
    const [before, inside, kept, behind] = [run.row(), run.row(), run.row(), run.row()];
    await app.outbox.transaction(async (tx) => {
      await app.write(tx, before);
      const nested = app.outbox.transaction(
        async (inner) => {
          await app.write(inner, inside);
          throw thrown;
        },
        { nested: true },
      );
      await assert.rejects(nested, { message: thrown.message });
      await app.outbox.transaction((inner) => app.write(inner, kept), { nested: true });
      await app.write(tx, behind);
    });
    await run.assertOnly(app, [before, inside, kept, behind], [before, kept, behind]);
  });
}

function describeRefusals<Tx extends object>(suite: Suite<Tx>): void {
  const { run, it } = suite;

  it('refuses what is no transaction, and writes nothing', async () => {
    const { app } = suite;
    const row = run.row();
    for (const handle of [app.outside, {}, app.outbox] as Tx[]) {
      await assert.rejects(app.outbox.enqueue(messageOf(row), { tx: handle }), REFUSED);
      await assert.rejects(app.outbox.with(handle).enqueue(messageOf(row)), REFUSED);
    }
    await assert.rejects(app.outbox.enqueue(messageOf(row)), REFUSED);
    await run.assertOnly(app, [row], []);
  });

  it('refuses a transaction that has ended, also while its connection is in another one', async () => {
    const app = await run.open(1);
    const [row, next] = [run.row(), run.row()];
    let ended: Tx | undefined;
    await app.transaction(async (tx) => {
      ended = tx;
    });
    await assert.rejects(app.outbox.enqueue(messageOf(row), { tx: ended as Tx }), REFUSED);
    await app.transaction(async (tx) => {
      if (tx !== ended) await assert.rejects(app.outbox.enqueue(messageOf(row), { tx: ended as Tx }), REFUSED);
      await app.write(tx, next);
    });
    await run.assertOnly(app, [row, next], [next]);
  });

  it('tells transactions apart that one proxy stands for', async () => {
    const { app } = suite;
    const [kept, back] = [run.row(), run.row()];
    let current: Tx | undefined;
    const proxy = new Proxy((() => undefined) as object, {
      has: (_, name) => name in (current as Tx),
      get(_, name) {
        const value: unknown = Reflect.get(current as Tx, name);
        return typeof value === 'function' && !/^class\b/.test(String(value)) ? value.bind(current) : value;
      },
    }) as Tx;
    const write = async (tx: Tx, row: number): Promise<void> => {
      await app.insert(tx, row);
      current = tx;
      await app.outbox.enqueue(messageOf(row), { tx: proxy }).catch(() => undefined); // a layer may refuse all proxies
    };
    await app.transaction(async (tx) => {
      await write(tx, kept);
      const failed = app.transaction(async (other) => {
        await write(other, back);
        throw thrown;
      });
      await assert.rejects(failed, { message: thrown.message });
    });
    const { messages } = await run.outcome(app, [kept, back], 0);
    assert.equal(messages.includes(back), false);
  });

  it('writes an enqueue that nobody awaits with its transaction, or refuses it', async () => {
    const { app } = suite;
    for (const end of ['commit', 'rollback']) {
      const row = run.row();
      let written: Promise<boolean> | undefined;
      const ended = app.transaction(async (tx) => {
        written = app.outbox.enqueue(messageOf(row), { tx }).then(
          () => true,
          () => false,
        );
        if (end === 'rollback') throw thrown;
      });
      await ended.catch(() => undefined);
      const wasWritten = await written;
      const expected = end === 'commit' && wasWritten === true ? [row] : [];
      const { messages } = await run.outcome(app, [row], expected.length);
      assert.deepEqual(messages, expected);
    }
  });
}

function describeFailures<Tx extends object>(suite: Suite<Tx>): void {
  const { run, it } = suite;
  /** Whatever became of it: what it wrote is there as a whole, or not at all. */
  const assertWhole = async (app: Application<Tx>, rows: readonly number[]): Promise<void> => {
    const outcome = await run.outcome(app, rows);
    assert.deepEqual(outcome.messages, outcome.rows);
  };

  it('leaves no ghost behind a failed statement whose error was swallowed', async () => {
    const { app } = suite;
    const [row, behind] = [run.row(), run.row()];
    const transaction = app.transaction(async (tx) => {
      await app.write(tx, row);
      await assert.rejects(Promise.resolve(app.insert(tx, row)));
      await app.write(tx, behind).catch(() => undefined);
    });
    await transaction.catch(() => undefined);
    await assertWhole(app, [row, behind]);
  });

  it('leaves no ghost behind a deadlock whose error was swallowed', async () => {
    const { app } = suite;
    const [one, other] = [run.row(), run.row()];
    const [mine, theirs, late] = [run.row(), run.row(), run.row()];
    let meet = (): void => undefined;
    const met = new Promise<void>((resolve) => {
      let waiting = 2;
      meet = () => {
        waiting -= 1;
        if (waiting === 0) resolve();
      };
    });
    const side = (first: number, second: number, own: number, last: number | undefined): Promise<unknown> =>
      app
        .transaction(async (tx) => {
          await app.write(tx, own);
          await app.insert(tx, first);
          meet();
          await met;
          // One of both waits for the other, and the server ends one of them.
          await Promise.resolve(app.insert(tx, second)).catch(() => undefined);
          if (last !== undefined) await app.write(tx, last).catch(() => undefined);
        })
        .catch(() => undefined);
    await Promise.all([side(one, other, mine, late), side(other, one, theirs, undefined)]);
    await assertWhole(app, [mine, theirs]);
    // MySQL ends the transaction under the application: what that writes behind it, it commits by itself.
    const rows = await app.rows();
    const ghosts = ((await app.published()) as number[]).filter((row) => row === late && !rows.includes(row));
    assert.deepEqual(ghosts, []);
  });

  it('leaves the transaction usable when it refuses a message', async () => {
    const { app } = suite;
    const row = run.row();
    await app.transaction(async (tx) => {
      await assert.rejects(app.outbox.enqueue({ type: '', payload: 1 }, { tx }));
      await app.insert(tx, row);
      const message = { ...messageOf(row), id: NAMED };
      await app.outbox.enqueue(message, { tx });
      await assert.rejects(app.outbox.enqueue(message, { tx }), { code: 'DUPLICATE_MESSAGE' });
    });
    await run.assertOnly(app, [row], [row]);
  });
}

function describeLoad<Tx extends object>(suite: Suite<Tx>): void {
  const { run, it } = suite;

  it('asks for no second connection inside a transaction', async () => {
    const app = await run.open(1);
    const row = run.row();
    await app.outbox.transaction(async (tx) => {
      await app.insert(tx, row);
      await app.outbox.enqueue(messageOf(row));
    });
    await run.assertOnly(app, [row], [row]);
  });

  it('keeps 200 transactions apart that run at once', async () => {
    const { app } = suite;
    const rows = Array.from({ length: 200 }, () => run.row());
    const outcomes = rows.map((row) =>
      app
        .transaction(async (tx) => {
          await app.write(tx, row);
          if (row % 3 === 0) throw thrown;
        })
        .catch((error: unknown) => assert.equal(error, thrown)),
    );
    await Promise.all(outcomes);
    await run.assertOnly(
      app,
      rows,
      rows.filter((row) => row % 3 !== 0),
    );
  });
}
