import { chownSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { makeFolder, UNPRIVILEGED } from '../../../bench/support/own-server.js';
import { OutboxModule, OutboxService } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { Applications, build, CollectingTransport, OrderPlaced, quiet, typeOrm } from '../../nest/support/app.js';
import { makeCertificates, type Certificate, type Certificates } from '../../support/certificates.js';
import { canStartMysql, startOwnMysql } from '../../support/mysql-node.js';
import { canStart, startOwnMariaDb, startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { DATABASES, describeUnlessMissing, type DatabaseKind } from '../../support/services.js';
import { until } from '../../support/until.js';

interface Files {
  readonly cert: string;
  readonly key: string;
}

/** Files in `folder` that the server's user can read, and nobody else. */
function writeFiles(folder: string, certificate: Certificate): Files {
  const file = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    if (UNPRIVILEGED.uid !== undefined) chownSync(path, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
    return path;
  };
  return { cert: file('cert.pem', certificate.cert), key: file('key.pem', certificate.key) };
}

type Server = Pick<OwnDatabase, 'url'> & { stop(): unknown };
const START: Record<DatabaseKind, (files: Files) => Promise<Server>> = {
  postgres: ({ cert, key }) => startOwnPostgres({ ssl: 'on', ssl_cert_file: cert, ssl_key_file: key }),
  // Which of its sessions are encrypted stands in the performance schema.
  mariadb: ({ cert, key }) => startOwnMariaDb(['--performance-schema=ON', `--ssl-cert=${cert}`, `--ssl-key=${key}`]),
  mysql: ({ cert, key }) => startOwnMysql([`--ssl-cert=${cert}`, `--ssl-key=${key}`]),
};
const isThere = (kind: DatabaseKind): boolean => (kind === 'mysql' ? canStartMysql() : canStart[kind]);

const OF_MYSQL_FAMILY = `select cast(count(*) as double) as total, cast(sum(variable_value <> '') as double) as encrypted
  from information_schema.processlist p join performance_schema.threads t on t.processlist_id = p.id
    join performance_schema.status_by_thread s using (thread_id)
  where s.variable_name = 'Ssl_cipher' and p.db = database()`;
/** How many sessions there are in the database, and how many of them are encrypted. */
const SESSIONS: Record<DatabaseKind, string> = {
  postgres: `select count(*)::int as total, count(*) filter (where ssl)::int as encrypted
    from pg_stat_ssl join pg_stat_activity using (pid) where datname = current_database()`,
  mariadb: OF_MYSQL_FAMILY,
  mysql: OF_MYSQL_FAMILY,
};

describe.each(DATABASES)('TLS to %s', (kind) => {
  describeUnlessMissing(isThere(kind) ? [] : [kind], kind, () => {
    const applications = new Applications();
    let folder: string;
    let certificates: Certificates;
    let server: Server | undefined;
    let database: TestDatabase;
    let encrypted: TestDatabase;

    beforeAll(async () => {
      folder = makeFolder('database-tls');
      certificates = await makeCertificates();
      server = await START[kind](writeFiles(folder, certificates.good));
      database = await createTestDatabase(kind, server.url);
      encrypted = { ...database, options: { ...database.options, ssl: { ca: certificates.ca } } as DataSourceOptions };
    });
    afterAll(async () => {
      await applications.close();
      await server?.stop();
      rmSync(folder, { recursive: true });
    });

    it('takes the `ssl` of the DataSource for each session of the outbox', async () => {
      const transport = new CollectingTransport();
      const past = kind === 'postgres' ? { pooler: database.url } : {}; // nor by another way is it less
      const options = quiet({ transports: { default: transport }, database: { setup: 'create', ...past } });
      const application = await applications.start(build([typeOrm(encrypted), OutboxModule.forRoot(options)]));
      const id = await application.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('a'));
      await until(() => transport.ids.includes(id));
      const [sessions] = (await application.get(DataSource).query(SESSIONS[kind])) as [
        { total: number; encrypted: number },
      ];
      // The application's own, and those of the relay and of its listener.
      expect(sessions.total).toBeGreaterThanOrEqual(3);
      expect(sessions.encrypted).toBe(sessions.total);
      await applications.close();
    });

    if (kind === 'postgres')
      it.each(['url', 'replication.master.url'])(
        'takes what the DataSource’s `%s` says beside the address, for `database.pooler`, too',
        async (where) => {
          const url = `${database.url}?sslmode=no-verify`;
          const lists = { master: { url }, slaves: [] };
          const of = where === 'url' ? { url } : { replication: lists };
          const given = { ...database, options: { type: kind, ...of } as DataSourceOptions };
          const pooler = `${database.url}?application_name=listener`;
          const options = quiet({ database: { setup: 'create', pooler } });
          const application = await applications.start(build([typeOrm(given), OutboxModule.forRoot(options)]));
          const query = (sql: string): Promise<Record<string, unknown>[]> => application.get(DataSource).query(sql);
          const listeners = `${SESSIONS.postgres} and application_name = 'listener'`;
          await until(async () => Number((await query(listeners))[0]?.['total']) > 0);
          const [sessions] = await query(SESSIONS.postgres);
          expect(sessions?.['encrypted']).toBe(sessions?.['total']);
          await applications.close();
        },
      );

    it('does not go on without a certificate that it can trust', async () => {
      const strange = { ...database.options, ssl: { ca: certificates.stranger.cert } } as DataSourceOptions;
      await expect(new DataSource(strange).initialize()).rejects.toThrow(/certificate/);
    });
  });
});
