import { DataSource } from 'typeorm';
import { withoutStatement } from '../../../../lib/data-layers/drivers/mysql-connection.js';
import { openMysqlDatabase } from '../../../../lib/data-layers/typeorm/mysql.js';

const SECRET = `it's 'a "secret"' for key 'x'`;
it.each([
  [1062, `Duplicate entry '${SECRET}' for key 'by_header'`, `Duplicate entry '***' for key 'by_header'`],
  [
    1062,
    `Doppelter Eintrag '${SECRET}' für Schlüssel 'by_header'`,
    `Doppelter Eintrag '***' für Schlüssel 'by_header'`,
  ],
  [1292, `Truncated incorrect INTEGER value: '${SECRET}'`, `Truncated incorrect INTEGER value: '***'`],
  [
    1366,
    `Incorrect integer value: '${SECRET}' for column \`t\`.\`c\` at row 1`,
    `Incorrect integer value: '***' for column \`t\`.\`c\` at row 1`,
  ],
  [1146, `Table 'own.outbox_ready' doesn't exist`, `Table 'own.outbox_ready' doesn't exist`],
])('what error %i quotes of a row is in none of its properties: %s', (errno, text, told) => {
  const before = Object.assign(new Error(text), { errno, sqlMessage: text, sql: text });
  const error = withoutStatement(before) as Error & { sqlMessage: string };
  expect(error).toBe(before);
  expect([error.message, error.sqlMessage]).toEqual([told, told]);
  expect(error.stack?.startsWith(`Error: ${error.message}\n    at `)).toBe(true);
  expect(error).not.toHaveProperty('sql');
});

it('a server that says nothing more while the first connection is opened is left, and asked again', async () => {
  const silent = { on: () => undefined, connect: () => undefined, destroy: () => undefined, execute: undefined };
  const application = new DataSource({ type: 'mysql', driver: { createConnection: () => silent } });
  const database = openMysqlDatabase(application, { connectTimeout: 1 } as never);
  await expect(database.connection('lease').run({} as never)).rejects.toThrow('lost');
});
