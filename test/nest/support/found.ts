import type { FoundMessage, MessageQuery, OutboxAdmin } from '../../../lib/index.js';

/** All that match: a page ends when its time is over, which a slow server makes of a short table, too. */
export async function allFound(admin: OutboxAdmin, filter: MessageQuery = {}, limit = 500): Promise<FoundMessage[]> {
  const found: FoundMessage[] = [];
  for (let page = await admin.find(filter, { limit }); ; page = await admin.find(filter, { limit, after: page.next })) {
    if (page.messages.length > limit) throw new Error(`${page.messages.length} messages in a page of ${limit}`);
    found.push(...page.messages);
    if (page.next === null) return found;
  }
}
