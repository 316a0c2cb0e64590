import type { OutboxHooks } from '../../observe/events.js';
import type { HeldLease, LiveInstance } from '../../store/lease-store.js';
import { counted } from '../../observe/plural.js';
import { toldPlace } from '../../store/instance-info.js';
import { durationText } from '../../time/duration.js';

export type News = Pick<OutboxHooks, 'emit'>;

/** @param owners of each lease that was taken, where it ran out in somebody's hands */
export function tellExpired(news: News, owners: readonly (string | null)[]): void {
  for (const [owner, buckets] of byOwner(owners)) news.emit('leasesExpired', { owner, buckets });
}

/** @param leases that ended too late @param ms in which they end now */
export function tellShortened(news: News, leases: readonly { readonly owner: string }[], ms: number): void {
  for (const [owner, count] of byOwner(leases.map((lease) => lease.owner))) {
    const what = `${counted(count, 'lease')} of the instance ${owner} ${count === 1 ? 'ends' : 'end'} later than any living instance promises`;
    const why = "it died while the database's clock was ahead, or had a longer `lease`";
    const then = `unless it renews ${count === 1 ? 'it, it is' : 'them, they are'} taken over in ${durationText(ms)}`;
    news.emit('warning', { text: `${what} (${why}): ${then}` });
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
