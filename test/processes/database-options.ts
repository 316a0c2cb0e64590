import type { DataSourceOptions } from 'typeorm';

/** Of a process that a test started. */
export function databaseOptions(url: string): DataSourceOptions {
  return url.startsWith('postgres') ? { type: 'postgres', url } : { type: 'mariadb', url, timezone: 'Z' };
}
