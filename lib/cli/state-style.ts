import type { StoredState } from '../index.js';
import type { Style } from './style.js';

const STYLES: Partial<Record<StoredState, Style>> = {
  dead: 'red',
  blocked: 'yellow',
  waiting: 'yellow',
  published: 'dim',
};

export const stateStyle = (state: StoredState): Style | undefined => STYLES[state];
