import { isNetworkError } from '../../../lib/transports/network-errors.js';
import { CAUSE, classify, failed, failureTable, NODE_ROWS, rowOf } from '../../../lib/transports/failure.js';

describe('a failure table', () => {
  const table = failureTable(...NODE_ROWS, [CAUSE.message, ['NOPERM', 'ETIMEDOUT']], [CAUSE.either, ['No answer']]);

  it('finds a row by the whole name, or by the words with which a text begins', () => {
    expect(rowOf(table, 'NOPERM')).toBe(CAUSE.message);
    expect(rowOf(table, 'NOPERM this user has no permissions')).toBe(CAUSE.message);
    expect(rowOf(table, 'No answer: timeout')).toBe(CAUSE.either);
    expect(rowOf(table, 'NOPERMISSION')).toBeUndefined();
    expect(rowOf(table, 'of tomorrow')).toBeUndefined();
  });

  it('knows what Node says, and takes the word of the broker over it', () => {
    expect(rowOf(table, 'ECONNREFUSED')).toBeUndefined(); // the transport's, as what no row names
    expect(rowOf(table, 'ECONNRESET')).toBe(CAUSE.suspicious);
    expect(rowOf(table, 'TypeError')).toBe(CAUSE.message);
    expect(rowOf(table, 'ETIMEDOUT')).toBe(CAUSE.message);
  });
});

describe('a cause becomes blame', () => {
  const of = (...[cause, messages, destinations]: Parameters<typeof classify>) =>
    classify(cause, messages, destinations).blame;

  it('of one message, or of nobody while many shared it', () => {
    expect([0, 1, 2].map((messages) => of(CAUSE.message, messages))).toEqual(['transport', 'message', 'collateral']);
    expect([0, 1, 2].map((messages) => of(CAUSE.either, messages))).toEqual(['transport', 'transport', 'collateral']);
    expect([0, 1, 2].map((messages) => of(CAUSE.transport, messages))).toEqual(Array(3).fill('transport'));
  });

  it('of all messages to a destination, when there was no other', () => {
    expect([1, 2].map((destinations) => of({ fault: 'destination' }, 3, destinations))).toEqual([
      'message',
      'collateral',
    ]);
  });

  it('final only where a message is charged, a suspect only where none is', () => {
    const cause = { fault: 'message', final: true } as const;
    expect([0, 1, 2].map((messages) => classify(cause, messages).final)).toEqual([false, true, false]);
    expect([0, 1, 2].map((messages) => classify(CAUSE.either, messages).suspect)).toEqual([
      undefined,
      'message',
      undefined,
    ]);
    expect(classify(CAUSE.suspicious, 2).suspect).toBe('message');
    expect(classify(CAUSE.suspicious, 0).suspect).toBeUndefined();
  });

  it('and says nothing that is not known', () => {
    expect(failed('message', 'e', { final: false, suspect: undefined, certain: false })).toEqual({
      ok: false,
      blame: 'message',
      error: 'e',
    });
  });
});

it.each([
  ['ECONNREFUSED', true],
  ['EAI_AGAIN', true],
  ['ERR_SOCKET_CLOSED', true],
  ['ERR_TLS_CERT_ALTNAME_INVALID', true],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', true],
  ['ERR_ASSERTION', false], // of an encoder, about a message
  ['ERR_INVALID_ARG_TYPE', false],
  ['ERR_STREAM_NULL_VALUES', false],
])('%s: %s, it is of the network', (code, isOfIt) => {
  expect(isNetworkError(code)).toBe(isOfIt);
});
