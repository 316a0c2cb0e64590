import { createRequire } from 'node:module';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { ownFile } from './instances.js';

/** What we use of a `CronJob` of the package `cron`. */
export interface CronHandle {
  start(): void;
  stop(): unknown;
}
interface CronPackage {
  CronJob: {
    from(options: { cronTime: string; onTick: () => void; start: boolean; unrefTimeout: boolean }): CronHandle;
  };
}

/** `cron` comes with @nestjs/schedule, never with us: it is looked for from there. */
export function createCronJob(expression: string, onTick: () => void): CronHandle {
  const { CronJob } = loadCron(expression);
  try {
    return CronJob.from({ cronTime: expression, onTick, start: false, unrefTimeout: true });
  } catch (cause) {
    throw new OutboxConfigurationError('INVALID_OPTIONS', `retention.every: '${expression}' is no cron expression.`, {
      cause,
      hint: "Five or six fields, such as '0 3 * * *'.",
    });
  }
}

function loadCron(expression: string): CronPackage {
  const problems: unknown[] = [];
  for (const base of [ownFile(), `${process.cwd()}/package.json`]) {
    try {
      const schedule = createRequire(base).resolve('@nestjs/schedule/package.json');
      return createRequire(schedule)('cron') as CronPackage;
    } catch (error) {
      problems.push(error);
    }
  }
  throw new OutboxConfigurationError(
    'MISSING_PEER',
    `retention.every: { cron: '${expression}' } needs @nestjs/schedule.`,
    {
      cause: problems[0],
      hint: "Run `npm install @nestjs/schedule`, or give an interval such as '1h'.",
    },
  );
}
