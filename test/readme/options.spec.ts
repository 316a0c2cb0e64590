import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { documents } from './documents.js';
import { commentsOf, optionRows, optionsOfTheCode, optionsOfThePage } from './options-table.js';

/** Those of each transport, and those of its messages. */
function ofBrokers(): [file: string, name: string, count: number][] {
  const files = readdirSync('lib/transports').map((name) => `lib/transports/${name}/options.ts`);
  return files.filter(existsSync).flatMap((file) => {
    const names = readFileSync(file, 'utf8').matchAll(/^export interface ((?!\w+Connection)\w+Options) /gm);
    return [...names].map(([, name = '']): [string, string, number] => [file, name, 4]);
  });
}
const SENTENCE = /^[A-Z].*\.$/;

describe('the page of options', () => {
  const rows = optionsOfThePage();

  it('has every option once, with the default and the values of the code', () => {
    const found = rows.map(({ name, default: byDefault, allowed }) => [name, { default: byDefault, allowed }]);
    expect(found).toHaveLength(Object.keys(optionsOfTheCode()).length);
    expect(Object.fromEntries(found)).toEqual(optionsOfTheCode());
  });

  it('says of each what it does, in the words that an editor shows, and of what to decide now why the default is that', () => {
    const comments = commentsOf('lib/outbox.options.ts', 'OutboxOptions', 'OutboxExtras');
    const groups = ['database', 'retry', 'retention', 'partitions'];
    comments.delete('dataLayer.source'); // of what is given, not an option
    expect([...comments.keys()].filter((name) => !groups.includes(name)).sort()).toEqual(
      rows.map(({ name }) => name).sort(),
    );
    for (const { name, what, default: byDefault, allowed } of rows) {
      const [, bounds] = /^(?:duration|number|bytes), (\S+–[^\s;,]+(?:,\d{3})*(?:, or null)?)/.exec(allowed) ?? [];
      const rest = byDefault === 'required' ? 'Required.' : `Default: ${byDefault}${bounds ? ` (${bounds})` : ''}.`;
      expect([name, comments.get(name)]).toEqual([name, `${what} ${rest}`]);
      expect([name, what]).toEqual([name, expect.stringMatching(SENTENCE)]);
    }
    expect(rows.filter(({ why }) => /^\S.{10,}/.test(why)).length).toBeGreaterThanOrEqual(6);
    for (const name of groups) expect(comments.get(name)).toMatch(SENTENCE);
  });

  it.each([
    ...ofBrokers(),
    ['lib/transports/kafka/options.ts', 'KafkaOptions', 16],
    ['lib/transports/rabbitmq/options.ts', 'RabbitMqOptions', 19],
    ['lib/transports/nest-client/client-proxy.ts', 'ClientProxyOptions', 5],
    ['lib/transports/in-process/in-process.ts', 'InProcessOptions', 1],
    ['lib/enqueue/events/event-metadata.ts', 'OutboxEventOptions', 11],
    ['lib/enqueue/options.ts', 'MessageSettings', 8],
    ['lib/enqueue/options.ts', 'EnqueueOptions', 1],
    ['lib/enqueue/options.ts', 'PlainMessage', 5],
    ['lib/outbox-message.ts', 'KafkaMessageOptions', 2],
    ['lib/outbox-message.ts', 'RabbitMqMessageOptions', 7],
    ['lib/prometheus/options.ts', 'OutboxPrometheusOptions', 5],
    ['lib/otel/options.ts', 'OutboxTracingOptions', 3],
    ['lib/testing/override-outbox.ts', 'OverrideOutboxOptions', 5],
  ])('%s: %s says of each option what it does, in a sentence', (file, name, count) => {
    const comments = [...commentsOf(file, name)].filter(([path]) => !path.includes('.'));
    expect(comments.length).toBeGreaterThanOrEqual(count);
    expect(comments.filter(([, text]) => !SENTENCE.test(text) || text.startsWith('Default'))).toEqual([]);
  });

  it('gives its words to the README, which leaves columns out', () => {
    const own = optionRows(documents().find(({ path }) => path === 'README.md')?.text ?? '');
    const page = new Map(rows.map((row) => [`\`${row.name}\``, Object.values(row)]));
    expect(own.length).toBeGreaterThanOrEqual(6);
    for (const [name = '', ...cells] of own)
      expect(page.get(name)?.filter((cell) => cells.includes(cell))).toEqual(cells);
  });
});
