import fc from 'fast-check';
import { displayWidth, fit } from '../../../lib/cli/display-width.js';
import { tableLines, type Column } from '../../../lib/cli/table.js';
import { printed } from '../../support/status-command.js';

interface Row {
  readonly id: string;
  readonly text: string;
  readonly count: number;
}
const COLUMNS: readonly Column<Row>[] = [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'TEXT', cell: ({ text }) => text, mayBeCut: true, style: () => 'red' },
  { title: 'COUNT', cell: ({ count }) => String(count), align: 'right', mayBeLeftOut: true },
];
const lines = (rows: readonly Row[], width: number, colors = false) => tableLines(rows, COLUMNS, { width, colors });

describe('a table', () => {
  it('has columns as wide as what is in them, numbers at their right', () => {
    const rows = [{ id: 'a', text: 'x', count: 5 }].concat({ id: 'bcd', text: 'yyyyyy', count: 50 });
    expect(lines(rows, Infinity)).toEqual(['ID   TEXT    COUNT', 'a    x           5', 'bcd  yyyyyy     50']);
  });

  it('of status has a + at each count that stopped at its limit', async () => {
    const exact = { ready: 7, readyIsExact: true, oldestReadyAge: 0, scheduled: 0, waiting: 1, dead: 5, instances: 0 };
    const counts = { ...exact, blocked: 31_250, blockedKeys: 3, atLeast: ['blocked', 'blockedKeys'] };
    const stats = async () => ({ transports: { default: counts } });
    const { lines: told } = await printed({ health: async () => ({ status: 'up', reasons: [] }), stats });
    expect(told.at(-1)).toMatch(/^default +7 +\S+ +0 +1 +31,250\+ +5 +3\+ +0$/);
  });

  it('cuts what may be cut, then leaves out what may be left out', () => {
    const rows = [{ id: 'a', text: 'a long text that goes on', count: 5 }];
    expect(lines(rows, 22)).toEqual(['ID  TEXT         COUNT', 'a   a long tex…      5']);
    expect(lines(rows, 12)).toEqual(['ID  TEXT', 'a   a long …']);
  });

  it('is never wider than the terminal, whatever is in it, and obeys nothing that is in it', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), fc.integer({ min: 20, max: 60 }), (texts, width) => {
        const table = lines(
          texts.map((text) => ({ id: 'id', text, count: 1 })),
          width,
        );
        for (const line of table) {
          expect(line).not.toMatch(/\p{Cc}/u);
          expect(displayWidth(line)).toBeLessThanOrEqual(width);
        }
      }),
    );
  });

  it('colors a cell, and not the space behind it', () => {
    expect(lines([{ id: 'a', text: 'x', count: 5 }], Infinity, true)[1]).toMatch(
      /^a {3}\u001b\[31mx {3}\u001b\[0m {2}/,
    );
  });
});

describe('the width of a text', () => {
  it.each([
    ['abc', 3],
    ['日本', 4],
    ['e\u0301', 1],
    ['😀', 2],
  ])('%s has %d columns', (text, width) => expect(displayWidth(text)).toBe(width));

  it('is kept when a wide sign is cut', () => expect(fit('日本語', 4)).toBe('日…'));
});
