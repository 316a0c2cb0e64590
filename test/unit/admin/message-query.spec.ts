import { checkedPage } from '../../../lib/admin/checks.js';
import { checkedQuery, readCursor, writeCursor } from '../../../lib/admin/message-query.js';

const ID = '01931d2f-0a5b-7c3d-8e4f-0123456789ab';

describe('the filter of find', () => {
  it.each([
    [null, 'a filter must be an object, not null'],
    [{ ids: [] }, 'ids must be an array with at least one id'],
    [{ ids: ['x'] }, 'ids[0] is not a message id: a UUID has 36 characters'],
    [{ ids: Array.from({ length: 501 }, () => ID) }, 'ids has 501 ids, more than 500'],
    [{ key: '' }, 'key must be a string that is not empty'],
    [{ topic: 'a\0' }, 'topic contains a NUL character'],
    [{ state: 'gone' }, "state 'gone' is not one of dead, waiting, blocked, scheduled, ready, published"],
    [{ state: [] }, 'state must name one of'],
    [{ olderThan: 'soon' }, "olderThan must be a duration such as '5m'"],
    [{ states: 'dead' }, "unknown field 'states'. Did you mean 'state'?"],
  ])('refuses %j', (query, text) => {
    expect(() => checkedQuery(query as never)).toThrow(text);
  });

  it.each([
    [null, 'a page must be an object'],
    [{ limit: 0 }, 'limit must be a whole number from 1 to 500'],
    [{ limit: 501 }, 'limit must be a whole number from 1 to 500'],
    [{ after: 1 }, 'after must be next of the page before, not a number'],
    [{ before: '' }, "unknown field 'before'"],
  ])('refuses the page %j', (page, text) => {
    expect(() => checkedPage('find', page as never)).toThrow(text);
  });

  it('means what is not published, unless a state or ids are named', () => {
    expect(checkedQuery({}).states).toEqual(['dead', 'waiting', 'blocked', 'scheduled', 'ready']);
    expect(checkedQuery({ ids: [ID.toUpperCase(), ID] })).toMatchObject({ ids: [ID] });
    expect(checkedQuery({ ids: [ID] }).states).toContain('published');
    expect(checkedQuery({ state: ['ready', 'dead'], olderThan: '2s' })).toEqual({
      ids: undefined,
      states: ['dead', 'ready'],
      filter: { olderThan: 2_000 },
    });
    expect(checkedPage('find', {})).toEqual({ limit: 50, after: undefined });
  });

  it('has cursors of its own, that no other filter takes', () => {
    const cursor = { state: 'ready', position: '["1"]' } as const;
    const text = writeCursor(cursor, { key: 'k', type: 't' });
    expect(text).toMatch(/^[\w-]+$/);
    expect(readCursor(text, { type: 't', key: 'k' })).toEqual(cursor);
    const changed = Buffer.from(text, 'base64url').toString().replace('ready', 'gone');
    for (const wrong of ['', 'x', Buffer.from(changed).toString('base64url')])
      expect(() => readCursor(wrong, { key: 'k', type: 't' })).toThrow('after is not a cursor of this filter');
    expect(() => readCursor(text, { key: 'k' })).toThrow('after is not a cursor of this filter');
  });
});
