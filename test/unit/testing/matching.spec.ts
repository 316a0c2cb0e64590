import type { RecordedMessage } from 'nestjs-outbox/testing';
import { expectOne } from '../../../lib/testing/matching.js';

class Money {
  constructor(
    readonly amount: number,
    readonly currency: string,
  ) {}
}
class Masked {
  constructor(readonly secret: string) {}
  toJSON(): string {
    return `${this.secret.slice(0, 1)}…`;
  }
}
class Placed {
  constructor(
    readonly at: Date,
    readonly total: Money,
    readonly note?: string,
  ) {}
}
const at = new Date('2030-01-02T03:04:05.678Z');

const recorded = (payload: unknown): RecordedMessage => ({
  id: 'id',
  type: 'placed',
  version: 1,
  transport: 'default',
  topic: 't',
  key: null,
  headers: {},
  contentType: 'application/json',
  payload: payload instanceof Uint8Array ? payload : (JSON.parse(JSON.stringify(payload)) as unknown),
});
const found = (payload: unknown, expected: unknown): boolean => {
  const message = recorded(payload);
  try {
    return expectOne('enqueued', [message], 'placed', expected) === message;
  } catch {
    return false;
  }
};

describe('what a recorded message is expected to hold', () => {
  const placed = new Placed(at, new Money(10, 'EUR'));

  it.each<[string, unknown, unknown]>([
    ['a Date', placed, { at: new Date(at) }],
    ['an instance of a class', placed, { total: new Money(10, 'EUR') }],
    ['some of its fields', placed, { total: { currency: 'EUR' } }],
    ['the event itself', placed, new Placed(new Date(at), new Money(10, 'EUR'))],
    ['dates in lists', { all: [{ at }, { at }] }, { all: [{ at }, { at }] }],
    ['what writes itself', { card: new Masked('4711') }, { card: new Masked('4999') }],
    ['an event that writes itself', new Masked('4711'), new Masked('4711')],
    ['numbers that are none', { a: [Number.NaN], b: Infinity }, { a: [Number.NaN], b: Infinity }],
    ['nothing', { a: 1 }, { b: undefined }],
    ['bytes', Buffer.from('ab'), Buffer.from('ab')],
  ])('is %s, as JSON makes it', (_, payload, expected) => {
    expect(found(payload, expected)).toBe(true);
  });

  it.each<[string, unknown, unknown]>([
    ['Date', placed, { at: new Date(0) }],
    ['instance', placed, { total: new Money(11, 'EUR') }],
    ['field of the event', new Placed(at, new Money(1, 'EUR'), 'x'), new Placed(at, new Money(1, 'EUR'))],
    ['longer list', { all: [at] }, { all: [at, at] }],
    ['bigint, which no JSON holds', { a: 1 }, { a: 1n }],
    ['bytes', Buffer.from('ab'), Buffer.from('ac')],
    ['object of bytes', Buffer.from('ab'), { type: 'Buffer' }],
  ])('is no other %s', (_, payload, expected) => {
    expect(found(payload, expected)).toBe(false);
  });
});
