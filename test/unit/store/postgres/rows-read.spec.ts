import { RowsRead } from '../../../../lib/store/postgres/ready/rows-read.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';

const error = (code: string) => Object.assign(new Error(code), { code });

/** What is asked for, in order; each way that is named fails as it says. */
function reads(fails: Record<string, string>) {
  const clock = new FakeClock();
  const under = new RowsRead(clock);
  const ways: string[] = [];
  const read = (what: number, again?: () => boolean): Promise<string> =>
    under.read(
      what,
      async (as) => {
        ways.push(as);
        if (fails[as] !== undefined) throw error(fails[as]);
        return as;
      },
      again,
    );
  return { clock, ways, read };
}

describe('a read of rows', () => {
  it('D8: goes without payloads after one that is damaged, and for a minute, for that transport alone', async () => {
    const { read, ways, clock } = reads({ text: 'XX001' });
    expect(await read(1)).toBe('apart');
    await clock.advance(59_999);
    expect(await read(1)).toBe('apart');
    expect(ways).toEqual(['text', 'apart', 'apart']);
    expect(await read(2)).toBe('apart');
    await clock.advance(1);
    await read(1);
    expect(ways.slice(3)).toEqual(['text', 'apart', 'text', 'apart']);
  });

  it('D8: reads bytes where one is no text, and leaves even those where one is damaged', async () => {
    const { read, ways } = reads({ text: '22021', bytes: 'XX002' });
    expect(await read(1)).toBe('apart');
    expect(ways).toEqual(['text', 'bytes', 'apart']);
  });

  it.each(['57014', '57P01', 'ECONNRESET', '42P01'])('says that it failed with %s', async (code) => {
    const { read, ways } = reads({ text: code });
    await expect(read(1)).rejects.toMatchObject({ code });
    expect(ways).toEqual(['text']);
  });

  it('says so, too, where payloads are not what is damaged, or what it read was used', async () => {
    const { read, ways } = reads({ text: 'XX001', apart: 'XX001' });
    await expect(read(1)).rejects.toMatchObject({ code: 'XX001' });
    await expect(read(2, () => false)).rejects.toMatchObject({ code: 'XX001' });
    expect(ways).toEqual(['text', 'apart', 'text']);
  });
});
