import type { ParkedState } from '../outbox-message.js';

/** The state of a parked row is a small number in its table. */
const STATES = ['scheduled', 'waiting', 'blocked', 'dead'] as const;
export const SCHEDULED = 1;
export const WAITING = 2;
export const BLOCKED = 3;
export const DEAD = 4;
export const stateNumber = (state: ParkedState): number => STATES.indexOf(state) + 1;
export const stateName = (column: unknown): ParkedState => STATES[Number(column) - 1] as ParkedState;
