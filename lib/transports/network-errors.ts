/**
 * Codes of errors of sockets, name resolution and TLS, as Node gives them to every client. Whatever the client, they are
 * the transport's: no message makes a host unreachable or a certificate expire.
 */
export const NETWORK_ERRORS: ReadonlySet<string> = new Set([
  // connecting
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'ETIMEDOUT',
  'ERR_SOCKET_CONNECTION_TIMEOUT',
  'EACCES',
  'EMFILE',
  'ENFILE',
  // name resolution
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_FAIL',
  // connected
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENOTCONN',
  'ENOBUFS',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
  'ERR_SOCKET_CLOSED',
  // given up by this side
  'ABORT_ERR',
  // TLS: the handshake, and what Node finds wrong with a certificate
  'EPROTO',
  'ERR_TLS_HANDSHAKE_TIMEOUT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_NO_PROTOCOLS_AVAILABLE',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REVOKED',
  'CERT_REJECTED',
  'CERT_UNTRUSTED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_CHAIN_TOO_LONG',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'HOSTNAME_MISMATCH',
]);

/** OpenSSL's, by the text of its reason, and more with each version: what a peer refuses, a key that does not fit its certificate. */
const OF_OPENSSL = /^ERR_(SSL|OSSL|TLS)_/;

export function isNetworkError(code: string): boolean {
  return NETWORK_ERRORS.has(code) || OF_OPENSSL.test(code);
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
