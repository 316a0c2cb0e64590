import { OutboxEvent, type Classifier } from '../../../lib/index.js';
import { withCleanScopes } from '../../../lib/nest/relay-options.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { contractMessage } from '../../support/publish.js';
import { ScriptedTransport } from '../../support/relay.js';

type Verdict = ReturnType<Classifier>;
const asked: string[] = [];
const answers: Record<string, Verdict> = {};
const answering =
  (who: string): Classifier =>
  () => {
    asked.push(who);
    return answers[who];
  };
OutboxEvent({ type: 'classified', retry: { classify: answering('event') } })(class With {});
OutboxEvent({ type: 'classified', version: 2 })(class WithoutInVersion2 {});

describe('retry.classify', () => {
  const transports = { default: new ScriptedTransport() };
  const { retry } = withCleanScopes(resolveOptions({ transports, retry: { classify: answering('module') } }));
  const verdict = (version: number): Verdict =>
    retry.classify?.(new Error('no'), contractMessage({ topic: 't', type: 'classified', version }), 'message');
  beforeEach(() => void asked.splice(0));

  it.each<[Verdict, Verdict, string[], Verdict]>([
    // event says, module says, who is asked, and what counts
    ['dead', 'transport', ['event'], 'dead'],
    ['transport', 'dead', ['event'], 'transport'],
    [undefined, 'dead', ['event', 'module'], 'dead'],
    [undefined, undefined, ['event', 'module'], undefined],
  ])('event: %s, module: %s', (event, module, who, expected) => {
    Object.assign(answers, { event, module });
    expect([verdict(1), asked]).toEqual([expected, who]);
  });

  it('of an event is its version’s own', () => {
    Object.assign(answers, { event: 'dead', module: 'transport' });
    expect([verdict(2), asked]).toEqual(['transport', ['module']]);
  });
});
