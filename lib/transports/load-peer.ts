import { OutboxConfigurationError } from '../outbox.errors.js';

/**
 * A package that only some applications have. Loaded when it is first needed: a process that only enqueues has no broker's client
 * in memory.
 *
 * @param who needs it
 * @throws OutboxConfigurationError `MISSING_PEER`
 */
export async function loadPeer<Peer>(who: string, name: string, load: () => Promise<Peer>): Promise<Peer> {
  try {
    return await load();
  } catch (cause) {
    if (!NOT_FOUND.has(String((cause as { code?: unknown }).code))) throw cause;
    const hint = `Install it: npm install ${name}`;
    throw new OutboxConfigurationError('MISSING_PEER', `${who} needs the package ${name}.`, { cause, hint });
  }
}

const NOT_FOUND: ReadonlySet<string> = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND']);
