import { OutboxDispatcher, OutboxEvent, OutboxService, type Classifier } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { useApplications } from './support/app.js';
import { startRefusing } from './support/refusing.js';

/** What each classifier was asked, in order. */
const asked: string[] = [];
const answers: Record<string, ReturnType<Classifier>> = {};
const answering =
  (who: string): Classifier =>
  (_error, message, blame) => {
    asked.push(`${who} ${message.type} ${blame}`);
    return answers[who];
  };

@OutboxEvent({ type: 'with', retry: { classify: answering('event') } })
class With {}
@OutboxEvent({ type: 'with', version: 2 })
class WithoutInVersion2 {}

describeWith('postgres', 'retry.classify', () => {
  const { applications, database } = useApplications('postgres', 'test');
  beforeEach(async () => {
    asked.length = 0;
  });

  /** What one pass makes of one message of that event, which the transport blames. */
  const outcome = async (event: object) => {
    const retry = { classify: answering('module'), initial: '10m', max: '10m' } as const;
    const app = await startRefusing(applications, database, retry);
    const outbox = app.get(OutboxService);
    await outbox.enqueueOutsideTransaction(event);
    await app.get(OutboxDispatcher).runOnce();
    const { transports } = await outbox.stats();
    return transports['default'];
  };

  it.each([
    // event says, module says, asked, and what is stored
    ['dead', 'transport', ['event'], { dead: 1 }],
    ['transport', 'dead', ['event'], { dead: 0, waiting: 0 }],
    [undefined, 'dead', ['event', 'module'], { dead: 1 }],
    [undefined, undefined, ['event', 'module'], { dead: 0, waiting: 1 }],
  ] as const)('event: %s, module: %s', async (event, module, who, expected) => {
    Object.assign(answers, { event, module });
    expect(await outcome(new With())).toMatchObject(expected);
    expect(asked).toEqual(who.map((one) => `${one} with message`));
  });

  it('of an event is its version’s own', async () => {
    Object.assign(answers, { event: 'dead', module: 'transport' });
    expect(await outcome(new WithoutInVersion2())).toMatchObject({ dead: 0 });
    expect(asked).toEqual(['module with message']);
  });
});
