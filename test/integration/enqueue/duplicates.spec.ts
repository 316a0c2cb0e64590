// @tier gate
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { RecordedHooks } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';

const plain = (type: string) => ({ type, payload: 1 });

describeOnEach([], 'duplicates', (kind) => {
  const db = useEnqueueDatabase(kind);

  it('O4: tells of a duplicate: in its report, and in an event after the commit', async () => {
    const hooks = new RecordedHooks();
    const outbox = db.outbox({ hooks });
    const told = () => hooks.of('deduplicated');
    const first = await outbox.enqueueOutsideTransaction(plain('m'), { dedupKey: 'k' });
    const reports = await db.dataSource.transaction(async (manager) => {
      const one = await outbox.enqueue(plain('n'), { manager, dedupKey: 'k', report: true });
      const many = await outbox.enqueue(
        [plain('w'), { ...plain('x'), dedupKey: 'new' }, { ...plain('y'), dedupKey: 'new' }],
        { manager, report: true },
      );
      expect(told()).toEqual([]);
      return [one, ...many];
    });
    expect(reports.map(({ duplicate }) => duplicate)).toEqual([true, false, false, true]);
    const known = [first, reports[2]?.id];
    expect([reports[0]?.id, reports[3]?.id]).toEqual(known);
    expect(told()).toEqual([{ ids: known }]);
    const alone = outbox.enqueueOutsideTransaction(plain('z'), { dedupKey: 'k', report: true });
    expect(await alone).toEqual({ id: first, duplicate: true });
    const undone = db.dataSource.transaction(async (manager) => {
      await outbox.enqueue(plain('n'), { manager, dedupKey: 'k' });
      throw new Error('x');
    });
    await expect(undone).rejects.toThrow('x');
    expect(told()).toEqual([{ ids: known }, { ids: [first] }]);
    expect(await db.types()).toEqual(['m', 'w', 'x']);
  });
});
