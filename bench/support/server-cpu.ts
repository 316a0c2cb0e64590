import { readFileSync } from 'node:fs';
import type pg from 'pg';

/** CPU microseconds of a process with one thread, as the scheduler counts them; NaN where it does not tell. */
export function cpuOfThread(pid: number): number {
  return Number(read(`/proc/${pid}/schedstat`)?.split(' ')[0] ?? NaN) / 1_000;
}

/** CPU microseconds of all threads of a process, in steps of 10 ms. */
export function cpuOfProcess(pid: number): number {
  const fields = read(`/proc/${pid}/stat`)?.split(') ')[1]?.split(' ');
  return fields === undefined ? NaN : (Number(fields[11]) + Number(fields[12])) * 10_000;
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** CPU microseconds since their start of the backends that serve this application name. */
export async function cpuOfBackends(admin: pg.Client, applicationName: string): Promise<number> {
  const { rows } = await admin.query('select pid from pg_stat_activity where application_name = $1', [applicationName]);
  return rows.reduce((sum: number, { pid }: { pid: number }) => sum + cpuOfThread(pid), 0);
}

/** CPU microseconds of a relay's backends: what settles, and the rest, which claims. They are as old as the relay. */
export async function cpuOfRelay(admin: pg.Client): Promise<{ claim: number; settle: number }> {
  const { rows } = await admin.query<{ pid: number; settles: boolean }>(
    `select pid, query like 'with gone as (delete%' as settles from pg_stat_activity where application_name = 'nestjs-outbox'`,
  );
  const sum = { claim: 0, settle: 0 };
  for (const { pid, settles } of rows) sum[settles ? 'settle' : 'claim'] += cpuOfThread(pid);
  return sum;
}
