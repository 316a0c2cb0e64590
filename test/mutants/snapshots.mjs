/** Scans in slices, and sessions that hold a snapshot. */
export const SNAPSHOTS = [];
