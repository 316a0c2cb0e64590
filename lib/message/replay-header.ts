/**
 * Header of a message that was published before and comes again out of the archive: the number of the replay in the audit.
 * It is added where nobody has the keys, so that it is no part of what encryption binds to a payload.
 */
export const REPLAY_HEADER = 'replay-audit-id';

/** @param json headers as they are stored, `null`: none. One of this name is replaced: it is of an earlier replay. */
export function withReplayHeader(json: string | null, auditId: string): string {
  const stored = json === null ? {} : (JSON.parse(json) as object);
  return JSON.stringify({ ...stored, [REPLAY_HEADER]: auditId });
}

/** What stored headers of such a message contain, and those of no other: in a value, quotes are escaped. */
export const REPLAY_MARK = `"${REPLAY_HEADER}":`;
