import type { OutboxMessage, PublishContext, PublishResult } from '../../../../lib/index.js';
import type { OnResult } from '../../../../lib/relay/publish/batch.types.js';
import { Publisher } from '../../../../lib/relay/publish/publisher.js';
import { MAX_PROGRESS, OutboxTransport, PUBLISHED } from '../../../../lib/transports/transport.js';
import { Deadline } from '../../../../lib/time/deadline.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { gate, stored, turn } from '../../../support/transport-relay.js';

class Odd extends OutboxTransport {
  readonly receipt = 'broker' as const;
  resets = 0;
  contexts: PublishContext[] = [];
  act: (batch: readonly OutboxMessage[], context: PublishContext) => unknown = (batch) => batch.map(() => PUBLISHED);
  publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<readonly PublishResult[] | void> {
    this.contexts.push(context);
    return this.act(batch, context) as Promise<readonly PublishResult[] | void>;
  }
  override reset(): void | Promise<void> {
    this.resets += 1;
  }
}

function under(transport = new Odd()) {
  const clock = new FakeClock();
  const results: [number, PublishResult][] = [];
  const late: number[] = [];
  const kill = new AbortController();
  const publisher = new Publisher(transport, clock, 10_000);
  const publish = (count: number): Promise<void> =>
    publisher.publish(
      Array.from({ length: count }, () => stored()),
      (index, result) => (result === 'late' ? late.push(index) : results.push([index, result])),
      kill.signal,
    );
  const verdicts = () => results.map(([index, result]) => (result.ok ? index : `${index} ${result.blame}`));
  return { clock, publisher, transport, results, late, kill, publish, verdicts };
}

describe('the publisher', () => {
  it('K9: hears of a success that is reported after a failure, once, also when the publish is over; of no other', async () => {
    const { transport, late, publish, verdicts } = under();
    const failed: PublishResult = { ok: false, blame: 'message', error: new Error('no') };
    transport.act = async (_batch, { report }) => {
      report(0, failed);
      report(1, PUBLISHED);
      report(2, failed);
      return [PUBLISHED, PUBLISHED, PUBLISHED]; // the first counts
    };
    await publish(3);
    const { report } = transport.contexts[0] as PublishContext;
    expect(late).toEqual([]);
    for (const index of [0, 0, 1, 7]) report(index, PUBLISHED);
    report(2, failed);
    expect(late).toEqual([0]);
    expect(verdicts()).toEqual(['0 message', 1, '2 message']);
  });

  it('passes each result on once: the first counts, reported or returned', async () => {
    const { transport, publish, verdicts } = under();
    transport.act = async (_batch, { report }) => {
      report(1, { ok: false, blame: 'message', error: new Error('no') });
      report(1, PUBLISHED);
      report(7, PUBLISHED);
      return [PUBLISHED, PUBLISHED, PUBLISHED, PUBLISHED];
    };
    await publish(3);
    expect(verdicts()).toEqual(['1 message', 0, 2]);
    expect(transport.resets).toBe(0);
  });

  it('passes on what a transport leaves with a message up to a length, and beyond it the failure alone', async () => {
    const { transport, publish, results } = under();
    const error = new Error('no');
    const failure = { ok: false, blame: 'message', error } as const;
    const most = 'x'.repeat(MAX_PROGRESS);
    transport.act = () => [
      { ...failure, progress: most },
      { ...failure, progress: `${most}x` },
    ];
    await publish(2);
    expect(results).toEqual([
      [0, { ...failure, text: 'no', progress: most }],
      [1, { ...failure, text: 'no' }],
    ]);
  });

  it.each([
    ['returns too few', async () => [PUBLISHED]],
    ['returns nothing', async () => undefined],
    ['returns null', async () => null],
    ['returns holes', async () => [PUBLISHED, undefined, null]],
    ['rejects', () => Promise.reject(new Error('no'))],
    ['rejects with nothing', () => Promise.reject(undefined)],
    [
      'throws before it has a promise',
      () => {
        throw new Error('no');
      },
    ],
  ])('a transport that %s was away for what it said nothing of, and is reset first', async (_name, act) => {
    const { transport, publish, results, verdicts } = under();
    transport.act = (_batch, { report }) => {
      report(0, PUBLISHED);
      return act();
    };
    const resetBefore: number[] = [];
    transport.reset = () => void resetBefore.push(results.length);
    await publish(3);
    expect(verdicts()).toEqual([0, '1 transport', '2 transport']);
    expect(resetBefore).toEqual([1]);
  });

  it('tells each failure by a text that quotes none of the messages which it may be about', async () => {
    const results: string[] = [];
    const transport = new Odd();
    const decrypted = stored({ body: '"value three"' });
    const publisher = new Publisher(transport, new FakeClock(), 10_000);
    const error = new Error('value one, value two, value three');
    transport.act = async (batch, { report }) => {
      (batch as OutboxMessage[])[2] = decrypted; // in the place of what was read
      report(0, { ok: false, blame: 'message', error });
      throw error;
    };
    const onResult: OnResult = (_, result) => void (result === 'late' || result.ok || results.push(result.text));
    const batch = [stored({ body: '"value one"' }), stored({ body: '"value two"' }), stored()];
    await publisher.publish(batch, onResult, new AbortController().signal);
    expect(results).toEqual(['***, value two, value three', '***, ***, ***', '***, ***, ***']);
  });

  it('one that hangs is aborted at the timeout, torn down a second later, and what it says then is not heard', async () => {
    const { clock, transport, publish, verdicts } = under();
    transport.act = () => new Promise(() => undefined);
    let ended = false;
    const publishing = publish(2).then(() => (ended = true));
    await clock.advance(9_999);
    expect(transport.contexts[0]?.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(transport.contexts[0]?.signal.aborted).toBe(true);
    expect(ended).toBe(false);
    await clock.advance(1_000);
    await publishing;
    transport.contexts[0]?.report(0, PUBLISHED);
    expect(verdicts()).toEqual(['0 transport', '1 transport']);
    expect(transport.resets).toBe(1);
    expect(clock.pending).toBe(0);
  });

  it('B1: begins nothing when its time passed, unnoticed by any timer, while it connected', async () => {
    const { clock, transport, publish, verdicts } = under();
    Object.assign(transport, { connect: async () => void (clock.elapsed = 10_000) });
    await publish(1);
    expect(transport.contexts).toEqual([]);
    expect(verdicts()).toEqual(['0 transport']);
  });

  it('is killed at a shutdown, also when that came before', async () => {
    const { clock, transport, publish, verdicts, kill } = under();
    transport.act = () => new Promise(() => undefined);
    const first = publish(1);
    await turn();
    kill.abort();
    await clock.advance(1_000);
    await first;
    const second = publish(1);
    await clock.advance(1_000);
    await second;
    expect(verdicts()).toEqual(['0 transport', '0 transport']);
  });

  it('connects once for all that wait, and what the connection took is off the time for the publish', async () => {
    const { clock, transport, publish } = under();
    const connecting = gate();
    let attempts = 0;
    transport.connect = () => ((attempts += 1), connecting.opened);
    const both = Promise.all([publish(1), publish(1)]);
    await turn();
    await clock.advance(3_000);
    connecting.open();
    await both;
    expect(attempts).toBe(1);
    expect(transport.contexts.map(({ timeout }) => timeout)).toEqual([7_000, 7_000]);
  });

  it('a connection attempt that a reset overtook is not taken for the one that followed', async () => {
    const { clock, transport, publisher, publish, kill } = under();
    const attempts = [gate(), gate()];
    let made = 0;
    transport.connect = () => (attempts[made++] as { opened: Promise<void> }).opened;
    const first = publish(1);
    await clock.advance(11_000); // it never came, and was given up
    await first;
    const again = publisher.reconnect(kill.signal);
    await turn();
    attempts[0]?.open();
    await turn();
    expect(publisher.connected).toBe(false);
    attempts[1]?.open();
    await again;
    expect(publisher.connected).toBe(true);
    await publish(1);
    expect(made).toBe(2);
  });

  it('closes in time or destroys', async () => {
    const { clock, transport, publisher } = under();
    transport.close = () => new Promise(() => undefined);
    const closing = publisher.close(new Deadline(clock, 2_000));
    await clock.advance(1_999);
    expect(transport.resets).toBe(0);
    await clock.advance(1);
    await closing;
    expect(transport.resets).toBe(1);
    expect(clock.pending).toBe(0);
  });
});
