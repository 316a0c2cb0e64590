// A real Kafka Connect worker (standalone) with Debezium's connectors: its jars come from Maven.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from './free-port.mjs';
import { jarsOf, requireJava } from './jars.mjs';

const pom = join(dirname(fileURLToPath(import.meta.url)), 'kafka-connect', 'pom.xml');
const START_TIMEOUT = 60_000;

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
    const log = openSync(join(this.#home, 'log'), 'a');
    const server = spawn('java', this.#command, { detached: true, stdio: ['ignore', log, log] });
    this.#server = server;
    closeSync(log);
    const kill = () => server.kill('SIGKILL');
    process.once('exit', kill);
    server.once('exit', () => process.off('exit', kill));
    const deadline = Date.now() + START_TIMEOUT;
    while (!(await answers(this.url))) {
      if (server.exitCode !== null) throw new Error(`Kafka Connect ended with code ${server.exitCode}`);
      if (Date.now() > deadline) throw new Error(`Kafka Connect was not ready after ${START_TIMEOUT} ms`);
      await delay(100);
    }
  }

  /** No goodbye; what it had not noted of its progress is done again. */
  async kill() {
    const server = this.#server;
    if (server?.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, 'exit');
    server.kill('SIGKILL');
    await ended;
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
async function answers(url) {
  return fetch(`${url}/connectors`, { signal: AbortSignal.timeout(2_000) }).then(
    (response) => response.ok,
    () => false,
  );
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
