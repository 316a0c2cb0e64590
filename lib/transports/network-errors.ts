/**
 * Codes of errors of sockets, name resolution and TLS, as Node and OpenSSL give them to every client. Whatever the client, they
 * are the transport's: no message makes a host unreachable or a certificate expire.
 */
const OF_THE_NETWORK = [
  /^E(AI_)?[A-Z]+$/, // of the system, and of name resolution: ECONNREFUSED, EAI_AGAIN
  /^ERR_(SOCKET|SSL|OSSL|TLS)_|^ERR_STREAM_(DESTROYED|WRITE_AFTER_END)$/,
  /^ABORT_ERR$/, // given up by this side
  /^(CERT_|UNABLE_TO_GET_|UNABLE_TO_VERIFY_|HOSTNAME_MISMATCH$)|SELF_SIGNED_CERT/, // what Node finds wrong with a certificate
];

export function isNetworkError(code: string): boolean {
  return OF_THE_NETWORK.some((pattern) => pattern.test(code));
}

/** A connection that was there broke: over what was on it, perhaps. */
export const BROKEN_CONNECTION: ReadonlySet<string> = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE']);

/** What JavaScript, and Node's encoders, throw over a value that they cannot take. */
export const ENCODING_ERRORS: ReadonlySet<string> = new Set([
  'TypeError',
  'RangeError',
  'SyntaxError',
  'URIError',
  'ERR_INVALID_ARG_TYPE',
  'ERR_INVALID_ARG_VALUE',
  'ERR_OUT_OF_RANGE',
  'ERR_BUFFER_OUT_OF_BOUNDS',
  'ERR_BUFFER_TOO_LARGE',
  'ERR_STRING_TOO_LONG',
]);
