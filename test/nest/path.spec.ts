// @tier gate
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { join, relative } from 'node:path';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { kafka } from '../../lib/transports/kafka/index.js';
import { kafkaConfig, TestTopics } from '../support/kafka.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { build, OrderPlaced, quiet, typeOrm, useApplications, withoutPolls } from './support/app.js';

const root = process.cwd();
const MESSAGES = 20;
const isFile = (url: string): boolean => url.includes('/lib/') && !url.includes('/node_modules/');
/** A name that a module gives to others, as the tests' compiler writes it: no step of a message. */
const isExport = (text: string): boolean => /^get \w+\(\) \{\s*return \w+;\s*\}$/.test(text);

/** Files of lib/ that run code between the calls of `step`, as V8 counts them. */
class Coverage {
  private readonly session = new Session();
  private readonly sources = new Map<string, string>();

  async start(): Promise<void> {
    this.session.connect();
    await this.session.post('Profiler.enable');
    await this.session.post('Debugger.enable');
    await this.session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  }

  async step(): Promise<Set<string>> {
    const { result } = await this.session.post('Profiler.takePreciseCoverage');
    const ran = new Set<string>();
    for (const { scriptId, url, functions } of result.filter((script) => isFile(script.url))) {
      for (const { functionName, ranges } of functions) {
        const [{ count, startOffset, endOffset }] = ranges as [(typeof ranges)[number]];
        if (count === 0 || functionName === '') continue;
        if (!isExport((await this.sourceOf(scriptId)).slice(startOffset, endOffset)))
          ran.add(url.replace('file://', ''));
      }
    }
    return ran;
  }

  private async sourceOf(scriptId: string): Promise<string> {
    const known = this.sources.get(scriptId);
    if (known !== undefined) return known;
    const { scriptSource } = await this.session.post('Debugger.getScriptSource', { scriptId });
    this.sources.set(scriptId, scriptSource);
    return scriptSource;
  }

  stop(): void {
    this.session.disconnect();
  }
}

describeWith(['postgres', 'kafka'], 'the way of a message, from enqueue to the end of its row', () => {
  const used = useApplications();
  const topics = new TestTopics();
  const coverage = new Coverage();
  beforeAll(() => topics.start());
  afterAll(async () => {
    coverage.stop();
    await topics.stop();
  });

  it('takes no more files and lines than the ceilings of tools/weight.json', async () => {
    await topics.create(1, {}, 'orders');
    const transports = { default: kafka({ client: kafkaConfig() }) };
    const imports = () => [typeOrm(used.database), OutboxModule.forRoot(quiet({ transports, pollInterval: '1m' }))];
    const app = await used.applications.start(withoutPolls(build(imports())));
    const [outbox, dataSource] = [app.get(OutboxService), app.get(DataSource)];
    const send = async (): Promise<void> => {
      await dataSource.transaction((manager) => outbox.enqueue(new OrderPlaced('1'), { manager }));
      await until(async () => (await dataSource.query('select 1 from outbox_ready limit 1')).length === 0);
    };
    await send();
    await coverage.start();
    await coverage.step();
    // What every message takes: a beat of the leases, or a look of health, falls between few of them.
    let path: Set<string> | undefined;
    for (let n = 0; n < MESSAGES; n += 1) {
      await send();
      const ran = await coverage.step();
      path = path === undefined ? ran : new Set([...path].filter((file) => ran.has(file)));
    }
    const files = [...(path as Set<string>)].sort();
    const lines = files.reduce((sum, file) => sum + readFileSync(file, 'utf8').split('\n').length - 1, 0);
    const ceilings = JSON.parse(readFileSync(join(root, 'tools/weight.json'), 'utf8')) as Record<string, number>;
    if (process.env.OUTBOX_PATH) console.log(files.map((file) => relative(root, file)).join('\n'), files.length, lines);
    expect(files.length).toBeGreaterThan(10);
    expect(files.length).toBeLessThanOrEqual(ceilings["files on a message's path"] as number);
    expect(lines).toBeLessThanOrEqual(ceilings["lines on a message's path"] as number);
  });
});
