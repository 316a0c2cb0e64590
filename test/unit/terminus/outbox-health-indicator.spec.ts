import type { OutboxHealth, ReasonCode } from '../../../lib/index.js';
import { OutboxHealthIndicator } from '../../../lib/terminus/index.js';

describe('the health indicator for @nestjs/terminus', () => {
  const health = (status: OutboxHealth['status'], ...reasons: (readonly [ReasonCode, string])[]) => ({
    status,
    reasons: reasons.map(([code, text]) => ({ code, text })),
    transports: { events: { circuit: 'open' } },
  });
  function indicator(answer: unknown, relay: boolean | 'manual' = true, running = true, stops = 0) {
    const dispatcher = { status: () => ({ running }), deps: { options: { relay } }, stops };
    return new OutboxHealthIndicator({ health: async () => answer } as never, dispatcher as never);
  }

  it('is alive but where its relay should run, does not, and was stopped by nobody', () => {
    const alive = (...args: [(boolean | 'manual')?, boolean?, number?]) =>
      indicator(undefined, ...args).isAlive('outbox').outbox;
    expect(alive()).toEqual({ status: 'up', running: true });
    expect(alive(true, false)).toEqual({ status: 'down', running: false });
    expect(alive(true, false, 1).status).toBe('up');
    expect(alive(false, false).status).toBe('up');
    expect(alive('manual', false).status).toBe('up');
  });

  it('is ready while messages can be enqueued, whatever its broker does', async () => {
    const ready = async (...args: Parameters<typeof health>) =>
      (await indicator(health(...args)).isReady('outbox')).outbox;
    expect(await ready('up')).toEqual({ status: 'up', reasons: [] });
    expect(await ready('down', ['transport_down', 'Gone.'])).toEqual({ status: 'up', reasons: [] });
    const silent = ['database_silent', 'Gone.'] as const;
    expect(await ready('down', silent, ['relay_stopped', 'No.'])).toEqual({
      status: 'down',
      reasons: [{ code: 'database_silent', text: 'Gone.' }],
    });
    expect((await ready('down', ['database_read_only', 'No.'])).status).toBe('down');
  });

  it('is healthy unless nothing goes out, and says what health says', async () => {
    const look = async (...args: Parameters<typeof health>) => (await indicator(health(...args)).isHealthy('box')).box;
    expect(await look('degraded', ['dead_letters', 'Hm.'])).toEqual({
      status: 'up',
      outbox: 'degraded',
      reasons: [{ code: 'dead_letters', text: 'Hm.' }],
      circuits: { events: 'open' },
    });
    expect(await look('down', ['relay_stopped', 'No.'])).toMatchObject({
      status: 'down',
      outbox: 'down',
      reasons: [{ text: 'No.' }],
    });
  });
});
