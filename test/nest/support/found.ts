import type { FoundMessage, MessageQuery, OutboxAdmin } from '../../../lib/index.js';

/** All that match: a page ends when its time is over, which a slow server makes of a short table, too. */
export async function allFound(admin: OutboxAdmin, filter: MessageQuery = {}): Promise<FoundMessage[]> {
  const found: FoundMessage[] = [];
  for (
    let page = await admin.find(filter, { limit: 500 });
    ;
    page = await admin.find(filter, { limit: 500, after: page.next })
  ) {
    found.push(...page.messages);
    if (page.next === null) return found;
  }
}
