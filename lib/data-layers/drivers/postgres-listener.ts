import { systemClock } from '../../time/clock.js';
import { untraced } from '../../time/untraced.js';
import { quoteWith } from '../../store/names.js';
import type { CheckedOut } from './postgres-connection.js';

/** A half-open connection delivers nothing and reports nothing: asked this often whether it lives, milliseconds. */
const LIVENESS_INTERVAL = 15_000;

/** LISTEN on this client until `close` or until it is lost; `onLost` is called at most once, and never when this fails. */
export async function listenOn(
  { client, release }: CheckedOut,
  channel: string,
  onNotify: (payload: string) => void,
  onLost: (error: unknown) => void,
): Promise<{ close(): Promise<void> }> {
  let open = true;
  let listening = false;
  let cancelCheck: () => void = () => undefined;
  const lose = (error: unknown): void => {
    if (!open) return;
    void close();
    if (listening) onLost(error);
  };
  const close = async (): Promise<void> => {
    open = false;
    cancelCheck();
    await release().catch(() => undefined);
  };
  const check = (): void => {
    cancelCheck = systemClock.after(LIVENESS_INTERVAL, () => {
      untraced(() => client.query('select 1')).then(() => open && check(), lose);
    });
  };
  const notified = ({ payload = '' }: { payload?: string }): void => void (open && onNotify(payload));
  client.on('notification', notified as (message: never) => void);
  client.on('error', lose as (error: never) => void);
  client.on('end', () => lose(new Error('The connection was closed.')));
  try {
    await client.query(`listen ${quoteWith('"', channel)}`);
    if (!open) throw new Error('The connection was closed.');
    listening = true;
  } catch (error) {
    await close();
    throw error;
  }
  check();
  return { close };
}
