import { durationText, milliseconds } from '../../../lib/time/duration.js';

describe('durations', () => {
  it.each([
    [0, 0],
    [500, 500],
    ['0ms', 0],
    ['250ms', 250],
    ['30s', 30_000],
    ['1.5s', 1_500],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
  ])('%p is %d ms', (given, expected) => expect(milliseconds(given)).toBe(expected));

  it.each([
    -1,
    1.5,
    NaN,
    Infinity,
    2 ** 60,
    '',
    '30',
    's',
    '-1s',
    '1e3s',
    '1 s',
    '1w',
    '0.5ms',
    '٣s',
    null,
    undefined,
    {},
    true,
    5n,
  ])('%p is none', (given) => expect(milliseconds(given)).toBeUndefined());

  it.each([
    [0, '0ms'],
    [999, '999ms'],
    [90_000, '90s'],
    [60_000, '1m'],
    [86_400_000, '1d'],
  ])('prints %d as %s', (given, expected) => expect(durationText(given)).toBe(expected));
});
