/** Hosts that are named; of more, how many. */
const NAMED = 3;

/**
 * Where brokers are, for the log: hosts and ports of what was given, and nothing else of it. A URL that a function gives is not
 * known before each connect, and one that cannot be read as a URL is none: neither is named.
 */
export function brokerAddress(given: readonly unknown[]): string | undefined {
  const hosts = given.flatMap((one) => hostOf(one) ?? []);
  if (hosts.length === 0) return undefined;
  const more = hosts.length > NAMED ? ` and ${hosts.length - NAMED} more` : '';
  return hosts.slice(0, NAMED).join(', ') + more;
}

function hostOf(given: unknown): string | undefined {
  if (typeof given === 'string') return given.includes('://') ? hostOfUrl(given) : bareHost(given);
  if (typeof given !== 'object' || given === null) return undefined;
  const { hostname, port } = given as { hostname?: unknown; port?: unknown };
  if (typeof hostname !== 'string') return undefined;
  return bareHost(typeof port === 'number' ? `${hostname}:${port}` : hostname);
}

function hostOfUrl(text: string): string | undefined {
  return isMisread(text) ? undefined : bareHost(new URL(text).host);
}

/** No URL; or a bare `/`, `?` or `#` of its password ends the host too early, which is the user then, or part of the password. */
export function isMisread(text: string): boolean {
  if (!URL.canParse(text)) return true;
  const { pathname, search, hash } = new URL(text);
  return (pathname + search + hash).includes('@');
}

/** How a user name or a password has them in a URL. */
export const ENCODED = 'in a user name or password @ is written %40, / %2F, ? %3F, # %23';

/** `host`, `host:port`, `[::1]:5672`: anything else may hold what must not be shown. */
function bareHost(text: string): string | undefined {
  return /^(?:[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/i.test(text) ? text : undefined;
}
