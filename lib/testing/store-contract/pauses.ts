import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ActReport, OperatorStore, PauseStep } from '../../store/operator-store.js';
import { leave, type StoreRun } from './harness.js';

const MINUTE = 60_000;
const ACTION = { actor: `o'brien "ops"@höst \\`, filter: '{"transport":"ключ"}' } as const;
const REASON = `it's "an" audit \\ \u{1F4A5}`;

function pausing(operators: OperatorStore) {
  const act = async (
    what: 'pause' | 'resume',
    scope: PauseStep['scope'],
    actor: string,
    reason: string,
  ): Promise<ActReport> => {
    const filter = ACTION.filter;
    const report = await operators.act({ action: what, actor, filter }, { do: what, scope, actor, reason });
    return report as ActReport;
  };
  return {
    pause: (scope: PauseStep['scope'], actor: string = ACTION.actor, reason = REASON) =>
      act('pause', scope, actor, reason),
    resume: (scope: PauseStep['scope']) => act('resume', scope, ACTION.actor, ''),
  };
}

/** What operators pause, and how relays hear of it. A store without `operators` has none. */
export function describePauses(run: StoreRun): void {
  const { describe } = run.runner;
  const it = run.asking(run.runner.it);
  describe('pauses', () => {
    it('pauses and resumes once, keeps the first reason, and writes each call into the audit', async ({
      operators,
    }) => {
      const pauses = pausing(operators);
      const { transport, name } = await run.owned({ leased: false });
      const scope = { transport, topic: null, key: null };
      const mine = async () => (await operators.pauses()).filter((pause) => pause.transport === transport);
      assert.equal((await pauses.resume(scope)).done, 0);
      const before = Date.now();
      const first = await pauses.pause(scope);
      assert.equal(first.done, 1);
      const again = await pauses.pause(scope, 'another', 'another');
      assert.equal(again.done, 0);
      const [pause, ...more] = await mine();
      assert.deepEqual(more, []);
      assert.deepEqual({ ...pause, since: 0 }, { ...scope, since: 0, actor: ACTION.actor, reason: REASON, name });
      assert.ok(Math.abs((pause?.since.getTime() ?? 0) - before) < MINUTE);
      const ended = await pauses.resume(scope);
      assert.equal(ended.done, 1);
      assert.deepEqual(await mine(), []);
      const rows = await operators.audit({ before: null, limit: 100 });
      const told = [first, again, ended].map(({ audit }) => rows.find(({ id }) => id === audit));
      assert.deepEqual(
        told.map((row) => [row?.action, row?.done, row?.outcome, row?.error]),
        [
          ['pause', 1, 'done', null],
          ['pause', 0, 'done', null],
          ['resume', 1, 'done', null],
        ],
      );
      assert.deepEqual([told[0]?.actor, told[0]?.filter], [ACTION.actor, ACTION.filter]);
    });

    it('keeps a transport, a topic of it and a key of it apart', async ({ operators }) => {
      const pauses = pausing(operators);
      const { transport } = await run.owned({ leased: false });
      const scopes = [
        { transport, topic: null, key: null },
        { transport, topic: `it's \u{1F4A5}`, key: null },
        { transport, topic: null, key: 'ключ ' },
        { transport, topic: `it's \u{1F4A5}`, key: 'ключ ' },
        { transport, topic: `it's \u{1F4A5} `, key: null },
        { transport, topic: `IT'S \u{1F4A5}`, key: null },
        { transport, topic: ' ', key: null },
      ];
      for (const scope of scopes) await pauses.pause(scope);
      const mine = async () =>
        (await operators.pauses())
          .filter((pause) => pause.transport === transport)
          .map(({ topic, key }) => ({ transport, topic, key }));
      assert.deepEqual(await mine(), scopes);
      for (const scope of scopes.slice(0, 3)) await pauses.resume(scope);
      assert.deepEqual(await mine(), scopes.slice(3));
      for (const scope of scopes.slice(3)) await pauses.resume(scope);
    });

    it('tells them with each heartbeat, said or only heard', async ({ operators }) => {
      const pauses = pausing(operators);
      const { transport } = await run.owned({ leased: false });
      const scope = { transport, topic: null, key: null };
      const instance = { owner: randomUUID(), transports: [transport], info: 'a' };
      const heard = async (how: 'beat' | 'living') => {
        const answer = await (how === 'beat' ? run.other.leases.beat(instance, MINUTE) : run.other.leases.living());
        assert.ok(answer.instances.some(({ owner }) => owner === instance.owner));
        assert.ok(answer.now > 0);
        return (answer.pauses ?? []).filter((pause) => pause.transport === transport);
      };
      assert.deepEqual([await heard('beat'), await heard('living')], [[], []]);
      await pauses.pause(scope);
      const [listed] = (await operators.pauses()).filter((pause) => pause.transport === transport);
      const { name: _, ...pause } = listed as NonNullable<typeof listed>;
      for (const how of ['beat', 'living'] as const) assert.deepEqual(await heard(how), [pause]);
      await pauses.resume(scope);
      assert.deepEqual([await heard('beat'), await heard('living')], [[], []]);
      await leave(run.other, instance.owner);
    });
  });
}
