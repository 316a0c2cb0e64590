import type { StoreSettings } from '../schema/names.js';

const NOTICED =
  'a pooler stands between this process and PostgreSQL, such as PgBouncer, RDS Proxy or Supavisor: the outbox prepares no statements, and ' +
  'sets what it needs in each of its transactions';
const POLLS =
  ". The relay polls for what other processes commit, as LISTEN does not pass a pooler in transaction mode; wakeUp: 'notify' listens all the same";
const SILENCED = ". Set database.preparedStatements: false and wakeUp: 'poll', and this is not told";

/** Says once that a pooler was noticed, and what follows; nothing to somebody whose options say all of it. */
export class PoolerNotice {
  /** @internal */ told = false;

  constructor(readonly settings: Pick<StoreSettings, 'preparedStatements' | 'wakeUp' | 'warn'>) {}

  tell(): void {
    const { preparedStatements, wakeUp, warn } = this.settings;
    if (this.told) return;
    this.told = true;
    if (!preparedStatements && wakeUp !== undefined) return;
    warn?.(NOTICED + (wakeUp === undefined ? POLLS : '') + SILENCED);
  }
}
