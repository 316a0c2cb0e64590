// ElasticMQ, a server that speaks the protocol of Amazon SQS, without Docker: its jars come from Maven.
// By hand: node tools/services/elasticmq.mjs   prints the URL and runs until Ctrl-C.
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { freePort } from './free-port.mjs';
import { jarsOf, requireJava } from './jars.mjs';
import { endProcess, startProcess, whenReady } from './own-process.mjs';

const pom = join(dirname(fileURLToPath(import.meta.url)), 'elasticmq', 'pom.xml');

/**
 * Needs Java 17+ and mvn; throws with one sentence when they are missing.
 * `durable`: what it acknowledged is in a file, and is there when it was killed; a few hundred messages a second.
 */
export async function startElasticMq({ durable = false } = {}) {
  await requireJava('ElasticMQ');
  const libs = await jarsOf(pom, 'elasticmq');
  const home = await mkdtemp(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'outbox-elasticmq-'));
  const port = await freePort();
  await writeFile(join(home, 'conf'), settings(port, durable ? join(home, 'messages') : undefined));
  const java = ['-Xms64m', '-Xmx512m', '-XX:TieredStopAtLevel=1', `-Dconfig.file=${join(home, 'conf')}`];
  const server = new ElasticMq(home, port, [...java, '-cp', `${libs}/*`, 'org.elasticmq.server.Main']);
  try {
    await server.restart();
    return server;
  } catch (error) {
    const tail = await readFile(join(home, 'log'), 'utf8').catch(() => '');
    await server.stop();
    throw new Error(`${error.message}\n${tail.slice(-2_000)}`);
  }
}

/** Where a file outlives its process, and waits for no disk. */
const MEMORY = '/dev/shm';

/** The release that `startElasticMq` starts. */
export async function elasticMqVersion() {
  return /<elasticmq\.version>(.*?)</.exec(await readFile(pom, 'utf8'))[1];
}

/** Its port stays the same while it is killed and started again, and so do its messages if it is durable. */
class ElasticMq {
  #server;
  #home;
  #command;

  constructor(home, port, command) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.#home = home;
    this.#command = command;
  }

  get pid() {
    return this.#server.pid;
  }

  /** Starts it; resolves when it answers. */
  async restart() {
    this.#server = startProcess('java', this.#command, join(this.#home, 'log'));
    const { sqs } = await import('./sqs.mjs');
    await whenReady('ElasticMQ', this.#server, () => sqs.probe(this.url));
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

/** It cannot read the header of a signature, which it does not check, and would say so for each request. */
function settings(port, messages) {
  const storage = { enabled: true, uri: `jdbc:h2:${messages};WRITE_DELAY=0` };
  return `include classpath("reference.conf")
node-address { protocol = http, host = "127.0.0.1", port = ${port} }
rest-sqs { bind-port = ${port}, bind-hostname = "127.0.0.1", sqs-limits = strict }
rest-stats.enabled = false
pekko.http.server.parsing.illegal-header-warnings = off
${messages === undefined ? '' : `messages-storage = ${JSON.stringify(storage)}`}
`;
}

async function runByHand() {
  const server = await startElasticMq();
  console.log(server.url);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void server.stop());
}

// No `await` out here: Jest loads this file as CommonJS.
if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) void runByHand();
