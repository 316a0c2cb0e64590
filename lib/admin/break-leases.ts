import { refuse } from '../options/refuse.js';
import type { LeaseStore } from '../store/lease-store.js';
import { checkNotEmpty, checkObject } from './checks.js';

/** Whose leases: all given conditions must hold, and one must be given. */
export interface LeaseSelection {
  transport?: string;
  /** Numbers, from 0. */
  buckets?: readonly number[];
  /** The id of an instance, as `outbox_leases` and the reasons of `health()` have it. */
  owner?: string;
}
export interface BrokenLeases {
  /** How many leases have ended. */
  readonly broken: number;
  /** Whose they were. */
  readonly owners: readonly string[];
  /** Leases that the selection names and that stay: their owner renewed them, or wrote under them, in this moment. */
  readonly left: number;
}

const SUBJECT = 'breakLeases';
const CONDITIONS = ['transport', 'buckets', 'owner'] as const;

/** @throws OutboxMessageError `INVALID_MESSAGE`: no condition, or one that is none */
export function checkLeaseSelection(selection: LeaseSelection): void {
  checkObject(SUBJECT, 'a selection', selection, CONDITIONS);
  checkNotEmpty(SUBJECT, selection, CONDITIONS);
  const { buckets, owner } = selection as Record<string, unknown>;
  if (buckets !== undefined && !(Array.isArray(buckets) && buckets.every(Number.isInteger)))
    refuse(SUBJECT, 'buckets must be an array of whole numbers');
  if (owner !== undefined && (typeof owner !== 'string' || owner === ''))
    refuse(SUBJECT, 'owner must be the id of an instance');
}

/** @param transport its number */
export async function breakLeases(
  store: Pick<LeaseStore, 'heldLeases' | 'endLeases'>,
  { buckets, owner }: LeaseSelection,
  transport: number | undefined,
): Promise<BrokenLeases> {
  const chosen = (await store.heldLeases()).filter(
    (lease) =>
      (transport === undefined || lease.transport === transport) &&
      buckets?.includes(lease.bucket) !== false &&
      (owner === undefined || lease.owner === owner),
  );
  const ended = await store.endLeases(chosen, 0);
  const names = new Set(ended.map((lease) => `${lease.transport}/${lease.bucket}`));
  const broken = chosen.filter((lease) => names.has(`${lease.transport}/${lease.bucket}`));
  return {
    broken: broken.length,
    owners: [...new Set(broken.map((lease) => lease.owner))],
    left: chosen.length - broken.length,
  };
}
