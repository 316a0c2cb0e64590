import type { Instance, Lease, LeaseStore } from '../../../lib/store/lease-store.js';
import type { MemoryDatabase } from './memory-database.js';
import { leaseOf, type LeaseRow } from './memory-rows.js';

/** Leases and heartbeats; each function is one statement. */

export function acquire(database: MemoryDatabase, request: Parameters<LeaseStore['acquire']>[0]): Lease[] {
  const { owner, leaseMs, transport, limit, only } = request;
  const now = database.now();
  const free = sorted(database).filter(
    (row) => row.transport === transport && row.expiresAt <= now && only?.includes(row.bucket) !== false,
  );
  return free.slice(0, Math.max(0, limit)).map((row) => {
    row.owner = owner;
    row.epoch += 1n;
    row.expiresAt = now + leaseMs;
    return leaseOf(row);
  });
}

export function renew(database: MemoryDatabase, owner: string, leaseMs: number): Lease[] {
  const now = database.now();
  const mine = sorted(database).filter((row) => row.owner === owner && row.expiresAt > now);
  for (const row of mine) row.expiresAt = now + leaseMs;
  return mine.map(leaseOf);
}

export function giveBack(database: MemoryDatabase, owner: string, leases: readonly Lease[]): void {
  for (const row of database.held(owner, leases)) free(row);
}

export function beat(database: MemoryDatabase, instance: Instance, ttlMs: number): Instance[] {
  const now = database.now();
  const { owner, transports, info } = instance;
  database.instances.set(owner, { owner, transports: [...transports], info, expiresAt: now + ttlMs });
  return [...database.instances.values()]
    .filter((row) => row.owner === owner || row.expiresAt > now)
    .map((row) => ({ owner: row.owner, transports: [...row.transports], info: row.info }));
}

export function expire(database: MemoryDatabase): (Lease & { owner: string })[] {
  const now = database.now();
  for (const { owner, expiresAt } of database.instances.values()) {
    if (expiresAt <= now) database.instances.delete(owner);
  }
  return sorted(database).flatMap((row) => {
    const { owner } = row;
    if (owner === null || row.expiresAt > now) return [];
    free(row);
    return [{ ...leaseOf(row), owner }];
  });
}

function free(row: LeaseRow): void {
  row.owner = null;
  row.expiresAt = -Infinity;
}

function sorted({ leases }: MemoryDatabase): LeaseRow[] {
  return [...leases.values()].sort((a, b) => a.transport - b.transport || a.bucket - b.bucket);
}
