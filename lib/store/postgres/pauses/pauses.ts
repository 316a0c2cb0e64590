import type { TableNames } from '../../names.js';
import { readPause, type Pause } from '../../pauses/pause-store.js';

export const SINCE = 'extract(epoch from p.since) operator(pg_catalog.*) 1000';

/** All pauses as one JSON text; null without one. */
export const pausesJson = ({ pauses }: TableNames): string =>
  `(select json_agg(json_build_array(p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason))::text from ${pauses} p)`;

export const parsePauses = (json: unknown): Pause[] =>
  typeof json === 'string' ? (JSON.parse(json) as unknown[][]).map(readPause) : [];
