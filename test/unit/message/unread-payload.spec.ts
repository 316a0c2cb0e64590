import { countFitting } from '../../../lib/message/fitting-by-bytes.js';
import { LARGE_PAYLOAD, withoutLargePayload } from '../../../lib/message/unread-payload.js';
import { stored } from '../../support/transport-relay.js';

describe('a message whose large payload is not needed any more', () => {
  it.each(['text', 'bytes', 'text of three bytes a character'])(
    'is another one without it, and tells its size (%s)',
    (as) => {
      const bytes = Buffer.alloc(2 * LARGE_PAYLOAD, 'x');
      const body = { text: String(bytes), bytes }[as] ?? '漢'.repeat(LARGE_PAYLOAD / 3 + 1);
      const message = stored({ body, key: 'k', attempts: 2, parkedId: '7', headersJson: '{"a":"b"}' });
      const left = withoutLargePayload(message);
      expect(message.body).toBe(body);
      expect(left).toEqual({ ...message, body: null, unread: body.length });
    },
  );

  it('is the same one when it has none: most have none, and nothing is made for them', () => {
    for (const message of [stored(), stored({ body: null }), stored({ body: null, unread: 2 * LARGE_PAYLOAD })])
      expect(withoutLargePayload(message)).toBe(message);
  });
});

describe('what fits', () => {
  it('ends with what reaches the bound; at least one, at most as many as wanted', () => {
    expect(countFitting([4, 4, 4, 4], 8, Number)).toBe(2);
    expect(countFitting([4, 4, 4, 4], 9, Number)).toBe(3);
    expect(countFitting([99, 1], 8, Number)).toBe(1);
    expect(countFitting([0, 0, 0], 8, Number, 2)).toBe(2);
    expect(countFitting([], 8, Number)).toBe(0);
  });
});
