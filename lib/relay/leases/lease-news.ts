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

export function tellDead(news: News, leases: readonly { readonly owner: string }[], instances: Instances): void {
  for (const [owner, count] of byOwner(leases.map((lease) => lease.owner))) {
    const place = toldPlace(instances.find((each) => each.owner === owner)?.info ?? '');
    const what = `${counted(count, 'lease')} of the instance ${owner} (${place}) ${count === 1 ? 'is' : 'are'} taken over early`;
    news.emit('warning', { text: `${what}: its process has ended without giving them back` });
  }
}

/** @param held by others @param dead those of them whose process has ended */
export function tellHeld(
  news: News,
  held: readonly HeldLease[],
  instances: Instances,
  dead: ReadonlySet<string>,
): void {
  if (held.length === 0) return;
  const owners = [...new Set(held.map(({ owner }) => owner))];
  const places = instances.filter(({ owner }) => owners.includes(owner)).map(({ info }) => toldPlace(info));
  news.emit('leasesHeld', {
    buckets: held.length,
    owners,
    places,
    runOutIn: Math.max(...held.map(({ remaining }) => remaining)),
    ofDead: held.filter(({ owner }) => dead.has(owner)).length,
  });
}

function byOwner(owners: readonly (string | null)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const owner of owners) if (owner !== null) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return counts;
}
