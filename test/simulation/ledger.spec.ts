import { PlayProcess } from './play-process.js';
import type { Histories, Met } from './ledger-process.js';

/** Random histories of eighteen steps; a failure tells its seed. */
const HISTORIES = Number(process.env.OUTBOX_LEDGER_HISTORIES ?? 1_000_000);
/** What some of them meet. */
const EVERYTHING = [
  'again',
  'alone',
  'barred',
  'behind a parked one',
  'lost',
  'orphan fails',
  'orphan is published',
  'run',
  'run breaks',
  'taken',
  'void',
];

describe('the ledger', () => {
  let player: PlayProcess<Histories, Met>;
  beforeAll(() => {
    player = new PlayProcess(new URL('ledger-process.ts', import.meta.url));
  });
  afterAll(() => player.end());

  it('loses nothing, keeps the order of each key and nothing of what is gone, in random histories', async () => {
    const { met, failed } = await player.ask({ count: HISTORIES });
    expect(failed).toBeUndefined();
    expect([...met].sort()).toEqual(EVERYTHING);
  }, 3_600_000);
});
