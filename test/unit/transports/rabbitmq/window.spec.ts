import fc from 'fast-check';
import type { PublishCall } from '../../../../lib/transports/rabbitmq/call.js';
import { RabbitMqDestination } from '../../../../lib/transports/rabbitmq/silence.js';
import { ConfirmWindow } from '../../../../lib/transports/rabbitmq/window.js';

const PLACE = new RabbitMqDestination('queue "q"', '');
const CALL = { name: 'call' } as unknown as PublishCall;

describe('ConfirmWindow', () => {
  it('settles the message that a tag means, whatever the order of the confirms', () => {
    const confirms = fc.array(fc.record({ pick: fc.nat(), multiple: fc.boolean(), writes: fc.nat(5) }), {
      maxLength: 400,
    });
    fc.assert(
      fc.property(confirms, (steps) => {
        const window = new ConfirmWindow();
        const open = new Set<number>();
        let tag = 0;
        for (const { pick, multiple, writes } of steps) {
          for (let n = 0; n < writes; n++) {
            window.push(CALL, ++tag, PLACE);
            open.add(tag);
          }
          if (open.size === 0) continue;
          const confirmed = [...open][pick % open.size]!;
          const expected = [...open].filter((one) => one === confirmed || (multiple && one < confirmed));
          const settled: number[] = [];
          window.confirm(confirmed, multiple, (_, index, at) => settled.push(at === index ? at : NaN));
          expect(settled).toEqual(expected);
          for (const one of settled) open.delete(one);
          expect([window.size, window.next]).toEqual([open.size, tag + 1]);
          const oldest = Math.min(tag + 1, ...open);
          expect([window.isPast(oldest), window.isPast(oldest + 1)]).toEqual([true, false]);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('moves on without keeping what is confirmed', () => {
    const window = new ConfirmWindow();
    for (let tag = 1; tag <= 50_000; tag++) {
      window.push(CALL, tag, PLACE);
      if (tag > 10) window.confirm(tag - 10, false, () => undefined);
    }
    expect(window.size).toBe(10);
    expect(window.calls.length).toBeLessThan(2_048);
  });

  it('ignores a tag that was confirmed or never given', () => {
    const window = new ConfirmWindow();
    window.push(CALL, 7, PLACE);
    const settled: number[] = [];
    for (const tag of [1, 1, 5, 0]) window.confirm(tag, false, (_, index) => settled.push(index));
    expect(settled).toEqual([7]);
  });

  it('counts from 1 again after a channel is gone, also when nothing was open', () => {
    const window = new ConfirmWindow();
    window.push(CALL, 1, PLACE);
    window.confirm(1, false, () => undefined);
    window.abandon(() => undefined);
    window.push(CALL, 2, PLACE);
    const settled: number[] = [];
    window.confirm(1, false, (_, index) => settled.push(index));
    expect(settled).toEqual([2]);
  });
});
