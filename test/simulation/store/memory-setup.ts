import { OutboxConfigurationError } from '../../../lib/outbox.errors.js';
import type { SchemaSettings } from '../../../lib/store/outbox-store.js';
import type { MemoryDatabase } from './memory-database.js';
import { placeName } from './memory-place.js';

/** Tables that are there stay as they are, whatever the settings. */
export function create(database: MemoryDatabase, { buckets, ordering, coordination }: SchemaSettings): void {
  database.meta ??= { buckets, ordering, coordination };
}

export function checkSettings({ settings }: MemoryDatabase, wanted: SchemaSettings): void {
  const names = (['buckets', 'ordering', 'coordination'] as const).filter((name) => settings[name] !== wanted[name]);
  if (names.length === 0) return;
  const problems = names.map((name) => `${name} is ${wanted[name]}, not ${settings[name]}`);
  throw new OutboxConfigurationError('SCHEMA_MISMATCH', `${problems.join(', ')}.`);
}

export function registerTransports(
  database: MemoryDatabase,
  names: readonly string[],
  defaultName: string | undefined,
): ReadonlyMap<string, number> {
  const { transports } = database;
  const fresh = names.filter((name) => !transports.has(name));
  fresh.sort((a, b) => Number(b === defaultName) - Number(a === defaultName));
  for (const name of fresh) {
    // 0 is what plain SQL writers mean: the default's or nobody's.
    const next = transports.size === 0 && name !== defaultName ? 1 : Math.max(-1, ...transports.values()) + 1;
    transports.set(name, next);
    addLeases(database, next);
  }
  return new Map(transports);
}

function addLeases({ leases, settings }: MemoryDatabase, transport: number): void {
  for (let bucket = 0; bucket < settings.buckets; bucket++) {
    leases.set(placeName(transport, bucket), {
      transport,
      bucket,
      owner: null,
      epoch: 0n,
      expiresAt: -Infinity,
      crashes: 0,
      trial: null,
    });
  }
}
