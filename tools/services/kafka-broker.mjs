// A real Apache Kafka broker (KRaft, one node, no auto-creation of topics) without Docker: its jars come from Maven.
// By hand: node tools/services/kafka-broker.mjs   prints host:port and runs until Ctrl-C.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from './free-port.mjs';
import { jarsOf, requireJava } from './jars.mjs';
import { endProcess, startProcess, whenReady } from './own-process.mjs';

const run = promisify(execFile);
const here = dirname(fileURLToPath(import.meta.url));
const pom = join(here, 'kafka-broker', 'pom.xml');

/**
 * Needs Java 17+ and mvn; throws with one sentence when they are missing.
 * `users`: names and passwords that log in at `saslUrl` (SASL/PLAIN) and may do what ACLs say; who comes to `url` has no name
 * and may do everything. `settings`: more lines of its `server.properties`.
 */
export async function startKafkaBroker({ users, settings = {} } = {}) {
  await requireJava('Apache Kafka');
  const libs = await jarsOf(pom, 'kafka');
  const home = await mkdtemp(join(tmpdir(), 'outbox-kafka-'));
  try {
    return await start(libs, home, users, settings);
  } catch (error) {
    await rm(home, { recursive: true, force: true });
    throw error;
  }
}

/** The release that `startKafkaBroker` starts. */
export async function kafkaVersion() {
  return /<kafka\.version>(.*?)</.exec(await readFile(pom, 'utf8'))[1];
}

async function start(libs, home, users, settings) {
  const [port, controller, saslPort] = [await freePort(), await freePort(), await freePort()];
  const properties = join(home, 'server.properties');
  const logging = join(home, 'log4j2.properties');
  const access = users === undefined ? '' : accessControl(port, controller, saslPort, users);
  const more = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(properties, [serverProperties(port, controller, join(home, 'data')), access, ...more].join(''));
  await writeFile(logging, LOGGING);
  const java = ['-Xms256m', '-Xmx512m', '-XX:TieredStopAtLevel=1', `-Dlog4j2.configurationFile=${logging}`];
  const classPath = ['-cp', `${libs}/*`];
  await run('java', [...java, ...classPath, 'kafka.tools.StorageTool', 'format', '-t', clusterId(), '-c', properties]);

  const broker = new Broker(home, { port, saslPort }, [...java, ...classPath, 'kafka.Kafka', properties]);
  try {
    await broker.restart();
  } catch (error) {
    const tail = await readFile(join(home, 'log'), 'utf8').catch(() => '');
    await broker.stop();
    throw new Error(`${error.message}\n${tail.slice(-2_000)}`);
  }
  return broker;
}

/** One id in 64 would begin with a dash, which the tool takes for an option. */
function clusterId() {
  return `n${randomBytes(16).toString('base64url').slice(1)}`;
}

/** Its data and its port stay the same while it is killed and started again. */
class Broker {
  #server;
  #home;
  #command;

  constructor(home, { port, saslPort }, command) {
    this.url = `127.0.0.1:${port}`;
    this.saslUrl = `127.0.0.1:${saslPort}`;
    this.#home = home;
    this.#command = command;
  }

  get pid() {
    return this.#server.pid;
  }

  /** Starts it; resolves when it answers. */
  async restart() {
    this.#server = startProcess('java', this.#command, join(this.#home, 'log'));
    const { kafka } = await import('./kafka.mjs');
    await whenReady('Kafka', this.#server, () => kafka.probe(this.url));
  }

  /** Bytes a second that each client of this name may send; 0: all that it wants. */
  async limit(clientId, bytes) {
    const change =
      bytes === 0 ? ['--delete-config', 'producer_byte_rate'] : ['--add-config', `producer_byte_rate=${bytes}`];
    const whose = ['--bootstrap-server', this.url, '--entity-type', 'clients', '--entity-name', clientId];
    const java = this.#command.slice(0, this.#command.indexOf('kafka.Kafka'));
    await run('java', [...java, 'kafka.admin.ConfigCommand', '--alter', ...change, ...whose]);
  }

  /** No goodbye, nothing flushed. */
  async kill() {
    await endProcess(this.#server, 'SIGKILL');
  }

  async stop() {
    await endProcess(this.#server, 'SIGTERM');
    await rm(this.#home, { recursive: true, force: true, maxRetries: 5 });
  }
}

function serverProperties(port, controller, dataDir) {
  return `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controller}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=${dataDir}
auto.create.topics.enable=false
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
`;
}

/** Of two lines with one name the later holds. A broker that a test registers may be silent for a minute. */
function accessControl(port, controller, saslPort, users) {
  const [inner, outer] = [`PLAINTEXT://127.0.0.1:${port}`, `SASL_PLAINTEXT://127.0.0.1:${saslPort}`];
  const logins = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`);
  return `listeners=${inner},${outer},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=${inner},${outer}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required ${logins.join(' ')};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
broker.session.timeout.ms=60000
`;
}

const LOGGING = `rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
`;

async function runByHand() {
  const broker = await startKafkaBroker();
  console.log(broker.url);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void broker.stop());
}

// No `await` out here: Jest loads this file as CommonJS.
if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) void runByHand();
