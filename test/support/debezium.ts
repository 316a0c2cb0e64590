import { randomBytes } from 'node:crypto';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { documents, type Block } from '../readme/documents.js';
import { createUser, runOn, type DatabaseUser } from '../readme/sql.js';
import type { TestDatabase } from './databases.js';
import type { Connector } from './kafka-connect.js';
import { requiredUrl, type DatabaseKind } from './services.js';
import { until } from './until.js';

/** Blocks of `docs/debezium.md`. */
export function debeziumBlocks(language: 'json' | 'sql', including: string): Block[] {
  const page = documents().find(({ path }) => path === 'docs/debezium.md');
  const found = page?.blocks.filter((block) => block.language === language && block.text.includes(including)) ?? [];
  if (found.length === 0) throw new Error(`docs/debezium.md has no ${language} with '${including}'`);
  return found;
}

/** What the page adds to a connector, or changes of it. */
export function documentedSettings(including: string): Record<string, string> {
  return JSON.parse((debeziumBlocks('json', including)[0] as Block).text) as Record<string, string>;
}

const CLASSES = { postgres: 'PostgresConnector', mysql: 'MySqlConnector', mariadb: 'MySqlConnector' } as const;
const DIALECTS = { postgres: 'postgres', mysql: 'mariadb', mariadb: 'mariadb' } as const;

/** A database that Debezium reads, set up as the page says: the user, its rights, and the connector's settings. */
export class DebeziumSource {
  /** Of this source alone, also among those of one server. */
  readonly connector: Connector;

  private constructor(
    readonly admin: DataSource,
    private readonly kind: DatabaseKind,
    private readonly user: DatabaseUser,
    topicPrefix: string,
  ) {
    const [{ text }] = debeziumBlocks('json', CLASSES[kind]) as [Block];
    const { config, ...rest } = JSON.parse(text) as Connector;
    const documented = {
      ...rest,
      config: { ...config, ...(kind === 'mariadb' ? documentedSettings('MariaDbConnector') : {}) },
    };
    this.connector = placed(documented, kind, new URL(user.url), topicPrefix);
  }

  /** The tables are there. */
  static async open(database: TestDatabase<DatabaseKind>, topicPrefix: string): Promise<DebeziumSource> {
    const { kind } = database;
    const admin = await new DataSource({ ...database.options, poolSize: 2 } as DataSourceOptions).initialize();
    const user = await createUser(admin, DIALECTS[kind], 'shop_debezium');
    if (kind === 'postgres') {
      await admin.query(`alter role ${new URL(user.url).username} replication`);
      await runOn(admin, debeziumBlocks('sql', 'create publication'));
    }
    return new DebeziumSource(admin, kind, user, topicPrefix);
  }

  /** As the page has it, run by somebody all the time. */
  async moveDue(): Promise<void> {
    await this.runDocumented('outbox_parked');
  }
  async deleteOld(): Promise<void> {
    await this.runDocumented('delete from outbox_ready where created_at');
  }
  private async runDocumented(text: string): Promise<void> {
    const blocks = debeziumBlocks('sql', text).filter(({ info }) => info === DIALECTS[this.kind]);
    if (blocks.length !== 1) throw new Error(`${blocks.length} blocks with ${text}`);
    await runOn(this.admin, blocks);
  }

  /** PostgreSQL only: its place in the log, while no connector uses it. The server notices late that its client is gone. */
  async dropSlot(): Promise<void> {
    const slots = 'from pg_replication_slots where slot_name = $1';
    const slot = [this.connector.config['slot.name']];
    await until(async () => {
      await this.admin.query(`select pg_terminate_backend(active_pid) ${slots} and active`, slot);
      await this.admin.query(`select pg_drop_replication_slot(slot_name) ${slots} and not active`, slot);
      return ((await this.admin.query(`select ${slots}`, slot)) as unknown[]).length === 0;
    });
  }

  async close(): Promise<void> {
    if (this.kind === 'postgres') await this.dropSlot();
    await this.user.drop();
    await this.admin.destroy();
  }
}

/** What the page leaves at Debezium's defaults, and a test would wait for: 500 ms from poll to poll, and 10 s before the next try. */
const WAITS = { 'poll.interval.ms': '50', 'retriable.restart.connector.wait.ms': '500' };
/** As long as by default, in shorter steps: for a slot that the server still holds for a client that is gone. */
const WAITS_FOR_SLOT = { 'slot.retry.delay.ms': '500', 'slot.max.retries': '120' };

/** The documented connector on this server, with topics of its own and short waits; all else is as it stands there. */
function placed(documented: Connector, kind: DatabaseKind, server: URL, topicPrefix: string): Connector {
  const name = server.pathname.slice(1);
  const text = JSON.stringify(documented).replaceAll('shop.outbox_ready', `${name}.outbox_ready`);
  const { config } = JSON.parse(text) as Connector;
  const own: Record<string, string> = {
    'database.hostname': server.hostname,
    'database.port': server.port,
    'database.user': server.username,
    'database.password': server.password,
    'topic.prefix': name,
    'transforms.outbox.route.topic.replacement': `${topicPrefix}\${routedByValue}`,
    'heartbeat.interval.ms': '100',
    ...(kind === 'postgres' ? onPostgres(name) : onMysqlFamily(name)),
  };
  for (const setting of Object.keys(own)) {
    if (config[setting] === undefined) throw new Error(`docs/debezium.md does not set ${setting}`);
  }
  const waits = { ...WAITS, ...(kind === 'postgres' ? WAITS_FOR_SLOT : {}) };
  return { name, config: { ...waits, ...config, ...own } };
}

function onPostgres(name: string): Record<string, string> {
  return { 'database.dbname': name, 'slot.name': name };
}

function onMysqlFamily(name: string): Record<string, string> {
  return {
    'database.include.list': name,
    'database.server.id': String(randomBytes(4).readUInt16BE() + 10_000),
    'schema.history.internal.kafka.bootstrap.servers': requiredUrl('kafka'),
    'schema.history.internal.kafka.topic': `${name}-schema`,
  };
}
