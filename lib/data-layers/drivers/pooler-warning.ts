import type { StoreSettings } from '../../store/names.js';

const NOTICED =
  'a pooler stands between this process and PostgreSQL, such as PgBouncer, RDS Proxy or Supavisor: the outbox prepares no statements, and ' +
  'sets what it needs in each of its transactions';
const POLLS =
  '. The relay polls for what other processes commit, as LISTEN does not pass a pooler in transaction mode. Give database.pooler the address ' +
  "of PostgreSQL itself, and it listens there; wakeUp: 'notify' listens through the pooler all the same";
const SILENCED = '. Set database.pooler: true, and this is not told';
const LISTENS_THERE =
  'the address in database.pooler leads to a pooler, too, which LISTEN does not pass in transaction mode: the relay polls for what other ' +
  'processes commit. Give it the address of PostgreSQL itself';

/** Says once that a pooler was noticed, and what follows; nothing to somebody whose options say so. */
export class PoolerWarning {
  private readonly told = new Set<boolean>();

  constructor(readonly settings: Pick<StoreSettings, 'pooler' | 'wakeUp' | 'warn'>) {}

  /** @param ofAll or only the way that the listener takes, by an address of its own */
  tell(ofAll: boolean): void {
    const { pooler, wakeUp, warn } = this.settings;
    if (this.told.has(ofAll)) return;
    this.told.add(ofAll);
    if (!ofAll) {
      if (wakeUp !== 'notify') warn?.(LISTENS_THERE);
    } else if (!pooler) warn?.(NOTICED + (wakeUp === undefined ? POLLS : '') + SILENCED);
  }
}
