import { once } from 'node:events';
import { startFile } from '../../support/own-process.js';
import { describeWith, DATABASES } from '../../support/services.js';

/** New York, both sides of both changes: at one of them an hour is missing, at the other one comes twice. */
const INSTANTS = [
  '2027-03-14T06:59:59.999Z',
  '2027-03-14T07:00:00.000Z',
  '2027-03-14T07:30:00.000Z',
  '2027-11-07T05:30:00.000Z',
  '2027-11-07T06:30:00.000Z',
  '2027-11-07T07:00:00.001Z',
];

/** Milliseconds. A zone that is taken for another makes half an hour at the least. */
const TOLERANCE = 20 * 60_000;

describe.each(DATABASES)('time on %s', (kind) => {
  describeWith(kind, 'in an application in New York with a database that thinks it is in Tokyo', () => {
    it('F2: every instant is the one that was meant, and every duration is as long as it says', async () => {
      const variables = { TZ: 'America/New_York', TIME: JSON.stringify({ kind, instants: INSTANTS }) };
      const child = startFile('test/processes/time-process.ts', variables);
      const result = once(child, 'message');
      const exited = once(child, 'exit');
      const [found] = (await Promise.race([result, exited.then(([code]) => [{ exited: code as number }])])) as [Found];
      await exited;
      expect(found).toMatchObject({ offset: 300, kept: 0, cleaned: INSTANTS.length + 3 });
      expect(found.due.sort()).toEqual(INSTANTS);
      expect(found.created.sort()).toEqual(INSTANTS.map((instant) => [instant, instant, instant]));
      // A clock that was set back leaves messages from the future.
      expect(found.age.ahead).toBe(0);
      expect(found.age.hour).toBeGreaterThanOrEqual(3_600_000);
      expect(found.age.hour).toBeLessThan(3_600_000 + TOLERANCE);
      expect(found.delayed).toBeGreaterThanOrEqual(390);
      expect(found.delayed).toBeLessThan(TOLERANCE);
      expect(found.backoff).toBeGreaterThanOrEqual(280);
      expect(found.backoff).toBeLessThan(TOLERANCE);
    });
  });
});

interface Found {
  readonly due: string[];
  readonly created: string[][];
  readonly age: { readonly ahead: number; readonly hour: number };
  readonly delayed: number;
  readonly backoff: number;
}
