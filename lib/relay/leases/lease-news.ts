import type { OutboxHooks } from '../../observe/events.js';
import type { HeldLease, LiveInstance } from '../../store/lease-store.js';
import { counted } from '../../observe/plural.js';
import { toldPlace } from '../../store/instance-info.js';

type News = Pick<OutboxHooks, 'emit'>;

/** @param owners of each lease that was taken, where it ran out in somebody's hands */
export function tellExpired(news: News, owners: readonly (string | null)[]): void {
  for (const [owner, buckets] of byOwner(owners)) news.emit('leasesExpired', { owner, buckets });
}

export function tellVoid(news: News, leases: readonly { readonly owner: string }[]): void {
  for (const [owner, count] of byOwner(leases.map((lease) => lease.owner))) {
    const what = `${counted(count, 'lease')} of the instance ${owner} ${count === 1 ? 'ends' : 'end'} later than any living instance promises, and it does not renew ${count === 1 ? 'it' : 'them'}`;
    const why = "it died while the database's clock was ahead, or had a longer `lease`";
    news.emit('warning', { text: `${what}: ${count === 1 ? 'it is' : 'they are'} taken over (${why})` });
  }
}

type Instances = readonly Pick<LiveInstance, 'owner' | 'info'>[];

/** @param held by others */
export function tellHeld(news: News, held: readonly HeldLease[], instances: Instances): void {
  if (held.length === 0) return;
  const owners = [...new Set(held.map(({ owner }) => owner))];
  const places = instances.filter(({ owner }) => owners.includes(owner)).map(({ info }) => toldPlace(info));
  news.emit('leasesHeld', {
    buckets: held.length,
    owners,
    places,
    runOutIn: Math.max(...held.map(({ remaining }) => remaining)),
  });
}

function byOwner(owners: readonly (string | null)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const owner of owners) if (owner !== null) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return counts;
}
