import type { TransportDefinition } from '../../../lib/index.js';
import { OutboxEvent } from '../../../lib/enqueue/events/outbox-event.decorator.js';
import { expectedOf } from '../../../lib/nest/expected.js';

const exchange = { rabbitmq: { exchange: 'shop' } };

@OutboxEvent({ type: 'placed', topic: 'orders', key: null })
class Placed {}
@OutboxEvent({ type: 'typed', key: null })
class Typed {}
@OutboxEvent({ type: 'sent', topic: () => 'any', key: null })
class Sent {}
@OutboxEvent({ type: 'billed', topic: 'bills', key: null, transport: ['rabbit', 'default'], options: exchange })
class Billed {}
@OutboxEvent({ type: 'routed', topic: 'routes', key: null, transport: 'rabbit', options: () => exchange })
class Routed {}
class Plain {}
const classes = [Placed, Typed, Sent, Billed, Routed, Plain];

function outbox(...names: string[]) {
  const transports = new Map(names.map((name) => [name, {} as TransportDefinition]));
  return { defaultTransport: names[0]!, transports };
}

describe('what event classes tell of the messages that will come', () => {
  it('R6: is the topic and the options, by transport, where they are the same for all events of the class', () => {
    const ours = outbox('default', 'rabbit');
    const of = (transport: string) => expectedOf(transport, ours, [ours], classes);
    expect(of('default')).toEqual([
      { topic: 'orders', options: {} },
      { topic: 'typed', options: {} },
      { topic: 'bills', options: exchange },
    ]);
    expect(of('rabbit')).toEqual([
      { topic: 'bills', options: exchange },
      { topic: 'routes', options: null },
    ]);
    expect(of('other')).toEqual([]);
  });

  it('R6: is nothing where another outbox of the process may enqueue them', () => {
    const [ours, theirs] = [outbox('default', 'rabbit'), outbox('default')];
    const topics = (transport: string) =>
      expectedOf(transport, ours, [ours, theirs], classes).map(({ topic }) => topic);
    expect(topics('default')).toEqual([]);
    expect(topics('rabbit')).toEqual(['routes']);
  });

  it('R6: is by default of every class that was decorated in this process', () => {
    const ours = outbox('rabbit');
    expect(expectedOf('rabbit', ours, [ours])).toHaveLength(4);
  });
});
