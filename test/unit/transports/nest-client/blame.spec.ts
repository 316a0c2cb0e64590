import { blameForClient, blameForUnmade } from '../../../../lib/transports/nest-client/blame.js';

const coded = (code: string, text = 'x') => Object.assign(new Error(text), { code });
class InvalidMessageException extends Error {}

describe('blame for what a serializer or a Nest client throws', () => {
  it.each<[what: unknown]>([
    [new TypeError('Do not know how to serialize a BigInt')],
    [new Error('wrapped', { cause: new RangeError('Invalid string length') })],
    [coded('ERR_INVALID_ARG_TYPE')],
    [new InvalidMessageException('x')],
  ])('what cannot be encoded is the message’s, and not final: %s', (error) => {
    expect(blameForClient(error)).toEqual({ ok: false, blame: 'message', error });
  });

  it.each<[what: unknown]>([
    [coded('ECONNREFUSED')],
    [new TypeError('fetch failed', { cause: coded('ENOTFOUND') })],
    // A client that has lost its connection.
    [new TypeError("Cannot read properties of null (reading 'publish')")],
    [new Error('Connection closed')],
    [coded('503')],
  ])('everything else is nobody’s, or that of a message that does it alone again and again: %s', (error) => {
    expect(blameForClient(error)).toEqual({ ok: false, blame: 'transport', suspect: 'message', error });
  });

  it('what is no error becomes one', () => {
    expect(blameForClient('Error: Connection lost.').error).toMatchObject({ message: 'Connection lost.' });
    expect(blameForUnmade(undefined)).toMatchObject({
      blame: 'message',
      final: true,
      error: { code: 'TRANSPORT_UNAVAILABLE' },
    });
  });
});
