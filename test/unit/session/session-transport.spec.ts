import { SessionTransport } from '../../../lib/transports/session/transport.js';
import type { BrokerClient, BrokerSession, Send, SessionEvents } from '../../../lib/transports/session/session.js';
import { contractMessage, probePublish, publish } from '../../support/publish.js';

/** A session whose broker is the test. */
class ScriptedSession implements BrokerSession {
  readonly window = 3;
  readonly sent: Send[] = [];
  destroyedBy: unknown;
  takeBack?: (sends: readonly Send[]) => void;

  constructor(readonly events: SessionEvents) {}

  send(sends: readonly Send[]): void {
    this.sent.push(...sends);
  }
  destroy(reason: unknown): void {
    this.destroyedBy = reason;
  }
  async close(): Promise<void> {}
}

/** Opens when the test says so. */
class ScriptedBroker implements BrokerClient {
  readonly name = 'Broker';
  readonly limits = {};
  readonly opened: ScriptedSession[] = [];
  let: Promise<void> = Promise.resolve();
  prepare: (session: ScriptedSession) => void = () => undefined;

  async open(signal: AbortSignal, events: SessionEvents): Promise<BrokerSession> {
    const session = new ScriptedSession(events);
    this.prepare(session);
    this.opened.push(session);
    await this.let;
    signal.throwIfAborted();
    return session;
  }
  judge = () => ({ fault: 'message' as const });
}

/** What goes together has gone. */
const soon = () => Promise.resolve();
const messages = (count: number) =>
  Array.from({ length: count }, (_, n) => contractMessage({ topic: 'orders', key: `${n}` }));

const publishUntil = async (signal: AbortSignal, transport: SessionTransport, batch: ReturnType<typeof messages>) =>
  (await probePublish(transport, batch, { timeout: 600_000, signal })).results;

async function connected(prepare?: ScriptedBroker['prepare']) {
  const broker = new ScriptedBroker();
  if (prepare !== undefined) broker.prepare = prepare;
  const transport = new SessionTransport(broker);
  await transport.connect(new AbortController().signal);
  return { broker, transport, session: broker.opened[0]! };
}

describe('a transport over one session', () => {
  it('ends the session for what is unanswered, also behind what the client itself refused later', async () => {
    const { transport, session } = await connected();
    const end = new AbortController();
    const first = publishUntil(end.signal, transport, messages(1));
    const second = publish(transport, messages(1));
    await soon();
    session.sent[1]!.unsendable(new Error('too large'));
    end.abort();
    expect(await second).toMatchObject([{ blame: 'message' }]);
    expect(await first).toMatchObject([{ blame: 'transport' }]);
    expect(session.destroyedBy).toBeInstanceOf(Error);
  });

  it('keeps the session where the broker answered what was sent later, and suspects the destination', async () => {
    const { transport, session } = await connected();
    const end = new AbortController();
    const both = publishUntil(end.signal, transport, messages(2));
    await soon();
    session.sent[1]!.taken();
    end.abort();
    expect(await both).toMatchObject([{ blame: 'transport', suspect: 'destination' }, { ok: true }]);
    expect(session.destroyedBy).toBeUndefined();
    expect(session.sent[0]!.isSettled).toBe(true);
  });

  it('takes back each that has no answer, whatever else was answered', async () => {
    const back: Send[] = [];
    const { transport, session } = await connected((made) => (made.takeBack = (sends) => void back.push(...sends)));
    const end = new AbortController();
    const both = publishUntil(end.signal, transport, messages(2));
    await soon();
    session.sent[1]!.taken();
    end.abort();
    await both;
    expect(back).toEqual([session.sent[0]]);
    expect(session.destroyedBy).toBeUndefined();
  });

  it('an attempt that was given up takes nothing from the next one', async () => {
    const broker = new ScriptedBroker();
    let letIn = (): void => undefined;
    broker.let = new Promise((resolve) => (letIn = resolve));
    const transport = new SessionTransport(broker);
    const lost = transport.connect(new AbortController().signal);
    transport.reset();
    const next = transport.connect(new AbortController().signal);
    await expect(lost).rejects.toThrow('reset');
    const sent = publish(transport, messages(1));
    letIn();
    await next;
    await soon();
    expect(broker.opened).toHaveLength(2);
    broker.opened[1]!.sent[0]!.taken();
    expect(await sent).toEqual([{ ok: true }]);
    await transport.close();
    expect(broker.opened.map(({ sent: { length } }) => length)).toEqual([0, 1]);
  });

  it('a session that was lost while it opened is none', async () => {
    const broker = new ScriptedBroker();
    broker.prepare = ({ events }) => events.lost(new Error('gone already'));
    const transport = new SessionTransport(broker);
    await expect(transport.connect(new AbortController().signal)).rejects.toThrow('gone already');
    expect(transport.health()).toMatchObject({ up: false, state: 'closed' });
  });

  it('lets nothing be written for a publish whose time is over before its timer fired, and says no from then on', async () => {
    const { transport, session } = await connected();
    expect(session.events.mayWrite()).toBe(true);
    const late = publish(transport, messages(1), 600_000);
    await soon();
    const now = Date.now();
    const clock = jest.spyOn(Date, 'now').mockReturnValue(now + 600_000); // the machine slept
    expect(session.events.mayWrite()).toBe(false);
    clock.mockRestore();
    expect(session.destroyedBy).toBeInstanceOf(Error);
    expect(await late).toMatchObject([{ blame: 'transport' }]);
  });

  it('keeps nothing of what ended while it waited', async () => {
    const broker = new ScriptedBroker();
    broker.open = () => Promise.reject(new Error('refused'));
    const transport = new SessionTransport(broker);
    for (let n = 0; n < 3; n++)
      expect(await publish(transport, messages(2))).toMatchObject([{ blame: 'transport' }, { blame: 'transport' }]);
    expect((transport as unknown as { window: { waiting: unknown[] } }).window.waiting).toEqual([]);
  });

  it('a batch that is larger than the window goes on as there is room', async () => {
    const { transport, session } = await connected();
    const batch = messages(5);
    const sent = publish(transport, batch);
    for (let n = 0; n < 5; n += 1) {
      await soon();
      expect(session.sent).toHaveLength(Math.min(5, 3 + n));
      session.sent[n]!.taken();
    }
    expect((await sent).every(({ ok }) => ok)).toBe(true);
    expect(session.sent.map(({ message }) => message.id)).toEqual(batch.map(({ id }) => id));
  });

  it('answers although who is told throws', async () => {
    const { transport, session } = await connected();
    const report = () => {
      throw new Error('a bug');
    };
    const sent = transport.publish(messages(2), { signal: new AbortController().signal, timeout: 60_000, report });
    await soon();
    for (const send of session.sent) send.taken();
    await sent;
  });

  it('sends what waits while the broker asks to wait, as soon as it asks no more', async () => {
    const { transport, session } = await connected();
    session.events.blocked?.('memory');
    const sent = publish(transport, messages(1));
    await soon();
    expect(session.sent).toHaveLength(0);
    expect(transport.health()).toMatchObject({ state: 'blocked' });
    session.events.blocked?.(undefined);
    await soon();
    session.sent[0]!.taken();
    expect(await sent).toEqual([{ ok: true }]);
  });
});
