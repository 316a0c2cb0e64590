import { judgeOutage, outageBudget, type OutageFacts } from '../../../lib/doctor/outage.js';
import type { GrowthFacts } from '../../../lib/store/diagnose/diagnose-store.js';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const growth = (facts: Partial<GrowthFacts> = {}): GrowthFacts => ({
  last: '1000',
  highest: '2000000',
  at: NOW,
  earlier: null,
  rowBytes: 500,
  ...facts,
});
const budget = (facts: Partial<OutageFacts> = {}) =>
  outageBudget({
    first: growth({ at: NOW - 2_000, last: '900' }),
    last: growth(),
    tableBytes: 1_000_000,
    freeBytes: undefined,
    mostTableBytes: undefined,
    maxAge: null,
    ...facts,
  });

describe('the outage budget', () => {
  it('takes the rate of two looks, where no message is older', () => {
    expect(budget().rate).toEqual({ perSecond: 50, over: 2, how: 'numbers given out between two looks' });
    const young = growth({ earlier: { seq: '990', at: NOW - 500 } });
    expect(budget({ last: young }).rate).toMatchObject({ perSecond: 50, over: 2 });
  });

  it('takes the rate since an older message that is stored', () => {
    const last = growth({ earlier: { seq: '400', at: NOW - 60_000 } });
    expect(budget({ last }).rate).toMatchObject({ perSecond: 10, over: 60 });
  });

  it('knows no rate of numbers that went back, and none of a clock that did', () => {
    expect(budget({ last: growth({ last: '5' }) }).rate).toBeNull();
    expect(budget({ last: growth({ at: NOW - 3_000 }) }).rate).toBeNull();
  });

  it('names the limit that is reached first, and when', () => {
    const { lasts, limits } = budget({ freeBytes: 250_000_000, mostTableBytes: 26_000_000, maxAge: 3_600_000 });
    expect(lasts).toBe(1_000);
    expect(limits).toEqual([
      { limit: 'tableBytes', left: 25_000_000, reachedIn: 1_000 },
      { limit: 'maxAge', left: 3_600, reachedIn: 3_600 },
      { limit: 'disk', left: 250_000_000, reachedIn: 10_000 },
      { limit: 'numbers', left: 1_999_000, reachedIn: 39_980 },
    ]);
  });

  it('is over when the tables are larger than they may be', () => {
    expect(budget({ mostTableBytes: 10 })).toMatchObject({ lasts: 0, limits: [{ limit: 'tableBytes', left: 0 }, {}] });
  });

  it('has no end while nothing is enqueued', () => {
    const still = budget({ first: growth({ at: NOW - 2_000 }), freeBytes: 10 });
    expect(still).toMatchObject({ lasts: null, rate: { perSecond: 0 } });
    expect(judgeOutage(still, 3_600_000)).toMatchObject({ severity: 'ok' });
  });

  it('warns of numbers that are used up soon, of everything else not before what is wanted', () => {
    const soon = budget({ last: growth({ highest: '1100' }) });
    expect(judgeOutage(soon, 3_600_000)).toMatchObject({
      severity: 'warning',
      text: 'The broker may be down for 2 seconds, until the numbers of messages are used up; wanted are 1h.',
      evidence: { limit: 'numbers', lastsSeconds: 2, numbersLeft: 100 },
    });
    const roomy = budget({ freeBytes: 90_000_000 });
    expect(judgeOutage(roomy, 3_600_001)).toMatchObject({ severity: 'warning', evidence: { lastsSeconds: 3_600 } });
    expect(judgeOutage(roomy, 3_600_000)).toMatchObject({
      severity: 'ok',
      text: 'The broker may be down for 60 minutes, until the disk is full.',
    });
  });

  it('says that it does not know, and what it would need', () => {
    expect(judgeOutage(budget(), 1_000)).toMatchObject({
      severity: 'note',
      fix: 'Give freeBytes or tableBytes to diagnose().',
      evidence: { lastsSeconds: null, limit: null },
    });
    const sizeless = budget({ last: growth({ rowBytes: null }), freeBytes: 10 });
    expect(judgeOutage(sizeless, 1_000)).toMatchObject({
      severity: 'note',
      fix: 'Ask again while messages are stored.',
    });
  });
});
