import type { AdminStore, GlanceRequest, TransportGlance, TransportStats } from '../../admin-store.js';
import type { MysqlGlance } from './glance.js';
import type { MysqlStats } from './stats.js';

/** What operators and `health()` ask. */
export class MysqlAdmin implements AdminStore {
  constructor(readonly parts: { readonly stats: MysqlStats; readonly glance: MysqlGlance }) {}

  stats(): Promise<TransportStats[]> {
    return this.parts.stats.stats();
  }

  relays(): ReturnType<AdminStore['relays']> {
    return this.parts.stats.relays();
  }

  parkedByTopic(transport: number, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.parts.stats.parkedByTopic(transport, limit);
  }

  glance(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    return this.parts.glance.look(request);
  }
}
