import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DataSource } from 'typeorm';
import { freePort } from '../../../bench/support/own-server.js';
import type { DoctorReport, Finding } from '../../../lib/index.js';
import { NestApplication } from '../../cli/support/nest-application.js';
import type { Ended } from '../../cli/support/cli.js';
import { startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { PrometheusServer, type Alert } from '../../support/prometheus.js';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import type { SmallDisk } from '../../support/small-disk.js';
import { until } from '../../support/until.js';
import { FILES } from './application.js';
import { Supervised } from './supervised.js';

/** The rules as shipped, but for time: a minute of `for` is 250 ms here (1/240), one of the window of a rate a second (1/60). */
const RULES = readFileSync(join(process.cwd(), 'ops/prometheus-rules.yml'), 'utf8')
  .replace(/\bfor: (\d+)m\b/g, (_, minutes) => `for: ${Number(minutes) * 250}ms`)
  .replace(/\[(\d+)m\]/g, '[$1s]');
/** As whom the application comes to the broker. */
const USER = 'shop';
/** What the broker takes at most, bytes. */
const MOST_BYTES = 20_000;

export interface Message {
  readonly type: string;
  readonly topic: string;
  readonly key?: string;
  readonly delay?: string;
  readonly payload: object;
}

/** A process that enqueues, one that relays, their servers, a Prometheus that scrapes both, and an operator with a shell. */
export class System {
  /** Ids that arrived in a queue. */
  readonly arrived = new Set<string>();
  /** The operator's own connection. */
  readonly database: DataSource;
  web!: Supervised;
  relay!: Supervised;
  prometheus!: PrometheusServer;
  observer!: RabbitMqObserver;
  password = 'right';

  private constructor(
    readonly server: OwnDatabase,
    readonly broker: RabbitMqNode,
    readonly shop: NestApplication,
    readonly disk: SmallDisk,
  ) {
    this.database = new DataSource({ type: 'postgres', url: this.databaseUrl });
  }

  static async start(disk: SmallDisk): Promise<System> {
    const [server, broker, shop] = await Promise.all([
      startOwnPostgres(),
      RabbitMqNode.start(),
      NestApplication.create(FILES),
    ]);
    const system = new System(server, broker, shop, disk);
    await Promise.all([system.makeDatabase(), system.makeBroker()]);
    await system.startProcesses();
    return system;
  }

  get databaseUrl(): string {
    return this.server.url.replace(/postgres$/, 'shop');
  }
  get brokerUrl(): string {
    return `amqp://${USER}:${this.password}@127.0.0.1:${this.broker.port}`;
  }

  /** All of it on the small disk; the server's log of writes is elsewhere. */
  private async makeDatabase(): Promise<void> {
    const admin = await new DataSource({ type: 'postgres', url: this.server.url }).initialize();
    await admin.query(`create tablespace small location '${this.disk.folder}'`);
    await admin.query(`create database shop template template0 encoding 'UTF8' tablespace small`);
    await admin.destroy();
    await this.database.initialize();
    await this.database.query('revoke create on schema public from public');
    const { code, stderr } = await this.migrate('migrate upgrade');
    if (code !== 0) throw new Error(stderr);
  }

  private async makeBroker(): Promise<void> {
    await this.broker.ctl('add_user', USER, this.password);
    await this.broker.ctl('set_permissions', USER, '.*', '.*', '.*');
    await this.takesAtMost(MOST_BYTES);
    this.observer = await RabbitMqObserver.connect(this.broker.url);
    await this.makeQueue('orders');
  }

  /** With a consumer. */
  async makeQueue(name: string): Promise<void> {
    const { channel } = this.observer;
    await channel.assertQueue(name, { durable: true });
    await channel.consume(name, (message) => void (message && this.arrived.add(String(message.properties.messageId))), {
      noAck: true,
    });
  }

  /** Of channels that open from now on. */
  takesAtMost(bytes: number): Promise<void> {
    return this.broker.ctl('eval', `application:set_env(rabbit, max_message_size, ${bytes}).`);
  }

  private async startProcesses(): Promise<void> {
    this.setClock(0);
    writeFileSync(join(this.shop.folder, 'right.clock'), '0');
    const env = { DATABASE_URL: this.databaseUrl };
    const [web, relay] = [await freePort(), await freePort()];
    const { folder } = this.shop;
    this.relay = new Supervised(folder, relay, () => ({
      ...env,
      ROLE: 'relay',
      CLOCK: 'relay.clock',
      BROKER_URL: this.brokerUrl,
    }));
    this.web = new Supervised(folder, web, () => ({
      ...env,
      ROLE: 'web',
      CLOCK: 'right.clock',
      BROKER_URL: this.brokerUrl,
    }));
    const targets = [web, relay].map((port) => `127.0.0.1:${port}`);
    const starting = PrometheusServer.start(targets, RULES);
    await Promise.all([starting, this.web.ready(), this.relay.ready()]);
    this.prometheus = await starting;
  }

  /** Of the machine of the relay: wrong by so many milliseconds. */
  setClock(wrongBy: number): void {
    writeFileSync(join(this.shop.folder, 'relay.clock'), String(wrongBy));
  }

  /** By the process that enqueues. @returns its ids */
  async enqueue(...messages: readonly Message[]): Promise<string[]> {
    return JSON.parse(await this.web.ask('/messages', messages)) as string[];
  }

  /** As an operator types it behind `npx nestjs-outbox`, on the machine of the relay. The drill itself asks again. */
  run(line: string): Promise<Ended> {
    return this.shop.cli.runOnce(line.split(' '), {
      OUTBOX_MODULE: join(this.shop.folder, 'app.module.js'),
      DATABASE_URL: this.databaseUrl,
      BROKER_URL: this.brokerUrl,
      NODE_OPTIONS: `--import ${join(this.shop.folder, 'clock.js')}`,
      CLOCK: join(this.shop.folder, 'relay.clock'),
    });
  }

  /** `migrate` refuses a module. */
  migrate(line: string): Promise<Ended> {
    return this.shop.cli.run(line.split(' '), { OUTBOX_DATABASE_URL: this.databaseUrl });
  }

  /** What is wrong, as the doctor says it. */
  async diagnose(options: string): Promise<readonly Finding[]> {
    const { stdout, stderr } = await this.run(`doctor --json ${options}`.trim());
    if (stdout === '') throw new Error(stderr);
    return (JSON.parse(stdout) as DoctorReport).findings.filter(({ severity }) => severity !== 'ok');
  }

  async firing(): Promise<readonly Alert[]> {
    return (await this.prometheus.alerts()).filter(({ state }) => state === 'firing');
  }

  /** A new message goes out, and no alert fires. */
  async healthy(): Promise<void> {
    const [id] = (await this.enqueue({ type: 'order.placed', topic: 'orders', payload: {} })) as [string];
    await until(() => this.arrived.has(id), 120_000, 100);
    await until(async () => (await this.firing()).length === 0, 120_000, 200);
  }

  async stop(): Promise<void> {
    this.prometheus?.stop();
    await Promise.all([this.web?.stop(), this.relay?.stop()]);
    await this.observer?.connection.close();
    if (this.database.isInitialized) await this.database.destroy();
    await this.broker.remove();
    this.server.stop();
    this.shop.remove();
  }
}
