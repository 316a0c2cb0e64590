/** Hands of operators, tests and migrations. */
export const HANDS = [];
