/** Nest consumers, and what a first day meets. */
export const CONSUMERS = [];
