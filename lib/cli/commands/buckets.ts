import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { jsonLine } from '../terminal.js';

export const BUCKETS: CliCommand = {
  name: 'buckets',
  summary: 'List who publishes from which bucket',
  options: [{ flags: '--transport <name>', help: 'of this transport only' }],
  async run({ open, terminal }, { options }) {
    const outbox = await open();
    const transport = options['transport'] as string | undefined;
    const buckets = await outbox.answer(outbox.admin.buckets(transport === undefined ? {} : { transport }));
    for (const bucket of buckets) terminal.out(jsonLine(bucket));
    return EXIT.ok;
  },
};
