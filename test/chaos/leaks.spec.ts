import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CANARY } from '../security/canaries.js';
import { leaksIn, leaksInErrors } from './leaks.js';
import type { DatabaseServer } from './servers/database.js';
import { payloadOf, sizeOf, uidIn } from './workload.js';

describe('secrets of the workload', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'outbox-leaks-'))));
  afterEach(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

  it('are found in what the processes said, and in what the dead-letter hook was told', () => {
    write('relay-1.log', `could not connect to amqp://relay:${CANARY.amqpPassword}@127.0.0.1`);
    write('relay-1.jsonl', `["d",1,5,0,16,"refused: ${payloadOf(16, CANARY.payload)}"]`);
    write('writer-1.log', Buffer.from(`header ${CANARY.header}`).toString('hex'));
    write('relay-2.log', 'nothing');
    // A delivery with wrong bytes, which is judged as such.
    write('sightings.jsonl', `["x",0,1,"${CANARY.payload}"]`);
    const { files, leaks } = leaksIn(folder);
    expect(files).toBe(4);
    expect(leaks.toSorted((a, b) => a.where.localeCompare(b.where))).toEqual([
      { where: 'relay-1.jsonl', secret: 'payload' },
      { where: 'relay-1.log', secret: 'amqpPassword' },
      { where: 'writer-1.log', secret: 'header' },
    ]);
  });

  it('are found in the errors that are left in the tables', async () => {
    const rows = [
      ['a', 'no such topic', null],
      ['b', 'no such topic', `[{"error":"password ${CANARY.databasePassword}"}]`],
    ];
    const database = { query: async () => rows } as unknown as DatabaseServer;
    expect(await leaksInErrors(database)).toEqual({
      errors: 2,
      leaks: [{ where: 'the errors of b', secret: 'databasePassword' }],
    });
  });

  it('are in each payload, which stays as long and as readable as it was', () => {
    for (let uid = 16; uid < 16 * 5_000; uid += 16) {
      const payload = payloadOf(uid, CANARY.payload);
      expect(payload).toContain(CANARY.payload);
      expect(payload).toHaveLength(sizeOf(uid));
      expect(uidIn(Buffer.from(payload))).toBe(uid);
    }
  });
});
