/** Costs that grow faster than the work. */
export const GROWTH = [];
