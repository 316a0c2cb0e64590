import type { OutboxHooks } from '../observe/events.js';

type News = Pick<OutboxHooks, 'emit'>;

/** @param owners of each lease that was taken, where it ran out in somebody's hands */
export function tellExpired(news: News, owners: readonly (string | null)[]): void {
  for (const [owner, buckets] of counted(owners)) news.emit('leasesExpired', { owner, buckets });
}

export function tellVoid(news: News, leases: readonly { readonly owner: string }[]): void {
  for (const [owner, count] of counted(leases.map((lease) => lease.owner))) {
    const what = `${count} leases of the instance ${owner} end later than any living instance promises, and it does not renew them`;
    const why = "it died while the database's clock was ahead, or had a longer `lease`";
    news.emit('warning', { text: `${what}: they are taken over (${why})` });
  }
}

function counted(owners: readonly (string | null)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const owner of owners) if (owner !== null) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return counts;
}
