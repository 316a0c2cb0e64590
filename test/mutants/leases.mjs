/** Leases that nobody can use, and what stands still without a word. */
export const LEASES = [];
