import type { INestApplicationContext } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { OutboxDoctor, type DoctorOptions, type DoctorReport, type Finding } from '../../lib/index.js';
import type { TestDatabase } from './databases.js';
import { until } from './until.js';

/** Quick: what is measured over seconds is no test's business but its own. And as long as a full machine needs for an answer. */
const QUICK: DoctorOptions = { measureFor: '10ms', timeout: '2m' };

export const diagnose = (app: INestApplicationContext, options: DoctorOptions = {}): Promise<DoctorReport> =>
  app.get(OutboxDoctor).diagnose({ ...QUICK, ...options });

/** What is not as it should be, of one code. */
export const problems = ({ findings }: DoctorReport, code: string): Finding[] =>
  findings.filter((finding) => finding.code === code && finding.severity !== 'ok');

/** Asks until the database shows what was done to it: some counts come late. */
export async function problem(
  app: INestApplicationContext,
  code: string,
  options: DoctorOptions = {},
  isMeant: (finding: Finding) => boolean = () => true,
): Promise<Finding> {
  let finding: Finding | undefined;
  await until(async () => {
    finding = problems(await diagnose(app, options), code).find(isMeant);
    return finding !== undefined;
  });
  return finding as Finding;
}

/** Everything of this code is as it should be, and was asked. */
export async function isWell(app: INestApplicationContext, code: string, options: DoctorOptions = {}): Promise<void> {
  await until(async () => {
    const { findings } = await diagnose(app, options);
    const mine = findings.filter((finding) => finding.code === code);
    return mine.length > 0 && mine.every(({ severity }) => severity === 'ok');
  });
}

/** A session of an operator, beside the application. */
export async function operator(database: Pick<TestDatabase, 'options'>): Promise<DataSource> {
  return new DataSource(database.options).initialize();
}

/** Runs what a finding says: statements, each with its semicolon. */
export async function follow(db: Pick<DataSource, 'query'>, { fix }: Finding): Promise<void> {
  const statements = (fix ?? '').match(/[^;]+;/g) ?? [];
  expect(statements).not.toEqual([]);
  for (const text of statements) await db.query(text.trim().slice(0, -1));
}
