import type { INestApplicationContext } from '@nestjs/common';
import { OutboxModule, type OutboxOptions } from '../../../lib/index.js';
import type { TestDatabase } from '../../support/databases.js';
import { build, MoodyTransport, quiet, typeOrm, type Applications } from './app.js';

/** An application whose one transport blames each message, in the passes that a test asks for. */
export function startRefusing(
  applications: Applications,
  database: TestDatabase,
  retry: OutboxOptions['retry'],
): Promise<INestApplicationContext> {
  const transports = { default: new MoodyTransport() };
  return applications.start(
    build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: 'manual', transports, ...(retry && { retry }) }))]),
  );
}
