import type { OutboxStore } from '../../lib/index.js';
import { Operator } from '../../lib/testing/store-contract/harness.js';
import type { SchemaSettings } from '../../lib/store/outbox-store.js';
import type { PauseScope } from '../../lib/store/pauses/pause-store.js';
import { SETTINGS } from './postgres-store.js';

/** An operator at this store. @param settings where a call names a key beside ids */
export function operatorOf(
  store: OutboxStore,
  settings: Pick<SchemaSettings, 'buckets' | 'ordering'> = SETTINGS,
): Operator {
  return new Operator(store, settings);
}

interface Pausing {
  readonly scope: PauseScope;
  readonly actor: string;
  readonly filter: string;
  readonly reason?: string;
}

/** Pauses and resumes at this store, as `OutboxAdmin` does. */
export const pausesOf = ({ operators }: Pick<OutboxStore, 'operators'>) => {
  const act = (what: 'pause' | 'resume', { scope, actor, filter, reason = '' }: Pausing) =>
    operators?.act({ action: what, actor, filter }, { do: what, scope, actor, reason });
  return { pause: (one: Pausing) => act('pause', one), resume: (one: Pausing) => act('resume', one) };
};
