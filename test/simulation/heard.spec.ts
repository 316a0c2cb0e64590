// @tier gate
import { Heard } from './heard.js';
import { MemoryDatabase } from './store/memory-database.js';

describe('what a relay was told of the numbers', () => {
  const at = { now: 0 };
  let database: MemoryDatabase;
  let heard: Heard;
  let again: number;
  const giveOut = (numbers: number): void => {
    for (let n = 0; n < numbers; n += 1) database.takeSeq();
  };
  const tell = (session = 1): void => heard.told({ session, source: database.numberSource() });
  const back = (): void => {
    at.now += 1;
    database.setNumbersBack(false);
  };
  beforeEach(() => {
    database = new MemoryDatabase({ now: () => at.now });
    again = 0;
    heard = new Heard(database, () => again);
    giveOut(5);
    tell();
  });

  it('is that they went back, from the first answer on that was given after it', () => {
    expect(heard.knows).toBe(true);
    const onItsWay = database.numberSource();
    back();
    expect(heard.knows).toBe(false);
    heard.told({ session: 1, source: onItsWay });
    expect(heard.knows).toBe(false);
    tell();
    expect(heard.knows).toBe(true);
  });

  it('is nothing where they reached again what it was told before, until they go back once more or all is read again', () => {
    back();
    giveOut(5);
    tell();
    tell();
    expect(heard.knows).toBe(false);
    tell(2);
    expect(heard.knows).toBe(true);
    back();
    giveOut(6);
    tell(2);
    expect(heard.knows).toBe(false);
    back();
    tell(2);
    expect(heard.knows).toBe(true);
    back();
    giveOut(1);
    tell(2);
    expect(heard.knows).toBe(false);
    again += 1;
    expect(heard.knows).toBe(true);
  });

  it('is that the table was emptied, whatever the numbers', () => {
    database.empty();
    back();
    giveOut(9);
    expect(heard.knows).toBe(false);
    tell();
    expect(heard.knows).toBe(true);
  });

  it('is whatever is so while they never went back', () => {
    expect(new Heard(database, () => again).knows).toBe(true);
  });
});
