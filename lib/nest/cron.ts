import { createRequire } from 'node:module';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { CronJobClass } from '../outbox.options.js';
import { ownFile } from './instances.js';

export type CronHandle = ReturnType<CronJobClass['from']>;

/** @param given else `cron`, which comes with @nestjs/schedule and never with us, is looked for from there */
export function createCronJob(expression: string, onTick: () => void, given?: CronJobClass): CronHandle {
  const CronJob = given ?? loadCron(expression);
  try {
    return CronJob.from({ cronTime: expression, onTick, start: false, unrefTimeout: true });
  } catch (cause) {
    throw new OutboxConfigurationError('INVALID_OPTIONS', `retention.every: '${expression}' is no cron expression.`, {
      cause,
      hint: "Five or six fields, such as '0 3 * * *'.",
    });
  }
}

function loadCron(expression: string): CronJobClass {
  const problems: unknown[] = [];
  for (const base of [ownFile(), `${process.cwd()}/package.json`]) {
    try {
      const schedule = createRequire(base).resolve('@nestjs/schedule/package.json');
      return (createRequire(schedule)('cron') as { CronJob: CronJobClass }).CronJob;
    } catch (error) {
      problems.push(error);
    }
  }
  throw new OutboxConfigurationError(
    'MISSING_PEER',
    `retention.every: { cron: '${expression}' } needs @nestjs/schedule.`,
    {
      cause: problems[0],
      hint: "Run `npm install @nestjs/schedule`, or give an interval such as '1h'. In a bundle give the class: { cron, CronJob }, with CronJob of 'cron'.",
    },
  );
}
