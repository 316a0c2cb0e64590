import type { Acquired, Beat, HeldLease, Instance, Lease, LeaseStore } from '../../../lib/store/lease-store.js';
import type { MemoryDatabase } from './memory-database.js';
import { leaseOf, type LeaseRow } from './memory-rows.js';

/** Leases and heartbeats; each function is one statement. */

export function acquire(database: MemoryDatabase, request: Parameters<LeaseStore['acquire']>[0]): Acquired[] {
  const { owner, leaseMs, transport, limit, only } = request;
  const now = database.now();
  const free = sorted(database).filter(
    (row) => row.transport === transport && row.expiresAt <= now && only?.includes(row.bucket) !== false,
  );
  return free.slice(0, Math.max(0, limit)).map((row) => {
    const before = { ...row };
    if (row.owner !== null && row.owner !== owner) row.crashes += 1;
    row.owner = owner;
    row.epoch += 1n;
    row.expiresAt = now + leaseMs;
    database.watch?.leased(row, before);
    const former = before.owner === owner ? null : before.owner;
    return { ...leaseOf(row), crashes: row.crashes, trial: row.trial, former };
  });
}

export function renew(
  database: MemoryDatabase,
  owner: string,
  leaseMs: number,
  lasted: readonly Lease[] = [],
): Lease[] {
  const now = database.now();
  for (const row of database.held(owner, lasted))
    if (row.expiresAt > now) Object.assign(row, { crashes: 0, trial: null });
  const mine = sorted(database).filter((row) => row.owner === owner && row.expiresAt > now);
  for (const row of mine) row.expiresAt = now + leaseMs;
  return mine.map(leaseOf);
}

export function giveBack(database: MemoryDatabase, owner: string, leases: readonly Lease[]): void {
  for (const row of database.held(owner, leases)) {
    free(row);
    row.trial = null;
  }
}

export function noteTrial(database: MemoryDatabase, owner: string, lease: Lease, id: string | null): boolean {
  const { transport, bucket } = lease;
  for (const each of database.leases.values()) {
    if (each.owner === owner && each.transport === transport && each.bucket !== bucket) each.trial = null;
  }
  const [row] = database.held(owner, [lease]);
  if (row === undefined || row.expiresAt <= database.now()) return false;
  row.trial = id;
  return true;
}

export function beat(database: MemoryDatabase, instance: Instance, ttlMs: number): Beat {
  const now = database.now();
  const { owner, transports, info } = instance;
  if (ttlMs === 0) database.instances.delete(owner);
  else database.instances.set(owner, { owner, transports: [...transports], info, expiresAt: now + ttlMs });
  return alive(database, (row) => row.owner === owner || row.expiresAt > now);
}

export const living = (database: MemoryDatabase, also?: 'gone'): Beat =>
  alive(database, ({ expiresAt }) => also === 'gone' || expiresAt > database.now());

function alive(database: MemoryDatabase, isAlive: (row: { owner: string; expiresAt: number }) => boolean): Beat {
  const instances = [...database.instances.values()]
    .filter(isAlive)
    .map((row) => ({ owner: row.owner, transports: [...row.transports], info: row.info, until: row.expiresAt }));
  return { instances, now: database.now(), pauses: database.pauses };
}

export function heldLeases(database: MemoryDatabase): HeldLease[] {
  const now = database.now();
  return sorted(database).flatMap((row) =>
    row.owner === null || row.expiresAt <= now
      ? []
      : [{ ...leaseOf(row), owner: row.owner, remaining: row.expiresAt - now, until: String(row.expiresAt) }],
  );
}

export function endLeases(database: MemoryDatabase, leases: readonly HeldLease[], inMs: number): Lease[] {
  return leases.flatMap(({ transport, bucket, epoch, owner, until }) => {
    const row = database.lease(transport, bucket);
    if (row?.owner !== owner || String(row.epoch) !== epoch || String(row.expiresAt) !== until) return [];
    row.expiresAt = database.now() + inMs;
    return [leaseOf(row)];
  });
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
    row.crashes += 1;
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
