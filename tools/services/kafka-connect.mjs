// A real Kafka Connect worker (standalone) with Debezium's connectors: its jars come from Maven.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.mjs';
import { jarsOf, requireJava } from './jars.mjs';
import { endProcess, startProcess, whenReady } from './own-process.mjs';

const pom = join(dirname(fileURLToPath(import.meta.url)), 'kafka-connect', 'pom.xml');

/** Needs Java 17+ and mvn; throws with one sentence when they are missing. `brokers`: host:port,host:port. */
export async function startKafkaConnect(brokers) {
  await requireJava('Kafka Connect');
  const libs = await jarsOf(pom, 'kafka-connect');
  const home = await mkdtemp(join(tmpdir(), 'outbox-connect-'));
  const worker = new Worker(home, await freePort(), libs);
  try {
    await worker.prepare(brokers);
    await worker.restart();
    return worker;
  } catch (error) {
    const log = await worker.log();
    await worker.stop();
    throw new Error(`${error.message}\n${log.slice(-2_000)}`);
  }
}

/** How far its connectors have come stays on disk while it is killed and started again; they have to be made anew then. */
class Worker {
  #home;
  #command;
  #server;

  constructor(home, port, libs) {
    this.url = `http://127.0.0.1:${port}`;
    this.#home = home;
    const java = [
      '-Xms64m',
      '-Xmx384m',
      '-XX:TieredStopAtLevel=1',
      `-Dlog4j2.configurationFile=${join(home, 'log4j2.properties')}`,
    ];
    const main = 'org.apache.kafka.connect.cli.ConnectStandalone';
    this.#command = [...java, '-cp', `${libs}/*`, main, join(home, 'worker')];
  }

  async prepare(brokers) {
    await writeFile(join(this.#home, 'worker'), settings(brokers, this.url, join(this.#home, 'offsets')));
    await writeFile(join(this.#home, 'log4j2.properties'), LOGGING);
  }

  /** Starts it; resolves when it answers. */
  async restart() {
    this.#server = startProcess('java', this.#command, join(this.#home, 'log'));
    await whenReady('Kafka Connect', this.#server, () => probe(this.url));
  }

  /** No goodbye; what it had not noted of its progress is done again. */
  async kill() {
    await endProcess(this.#server, 'SIGKILL');
  }

  log() {
    return readFile(join(this.#home, 'log'), 'utf8').catch(() => '');
  }

  async stop() {
    await this.kill();
    await rm(this.#home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** It listens before it knows its paths, and says 404 meanwhile. */
async function probe(url) {
  const { ok, status } = await fetch(`${url}/connectors`, { signal: AbortSignal.timeout(2_000) });
  if (!ok) throw new Error(`it says ${status}`);
}

function settings(brokers, url, offsets) {
  return `bootstrap.servers=${brokers}
listeners=${url}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename=${offsets}
offset.flush.interval.ms=100
plugin.discovery=service_load
`;
}

const LOGGING = `rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
`;
