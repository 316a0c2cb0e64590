import type { MessageHeaders } from '../../../lib/index.js';
import { encodeHeaders } from '../../../lib/message/headers.js';
import { OutboxMessage } from '../../../lib/outbox-message.js';
import { createEnvelope, isoTime } from '../../../lib/transports/envelope.js';

const ID = '019a9d5e-7c00-7000-8000-000000000001';
function message(
  headers: MessageHeaders = {},
  key: string | null = 'k',
  createdText = '2026-11-21 10:05:01.123456+00',
) {
  return new OutboxMessage({
    bucket: 0,
    seq: '1',
    id: ID,
    topic: 'orders',
    key,
    type: 'order.placed',
    version: 3,
    contentType: 'application/json',
    headersJson: encodeHeaders(headers),
    optionsJson: null,
    body: '{}',
    createdText,
    attempts: 0,
    parkedId: null,
    parkedState: null,
  });
}

describe('envelope', () => {
  it('L10: a tracer of the broker’s client does not write its trace over the one that the caller gave', () => {
    const headers = createEnvelope()(message({ traceparent: '00-a-b-01', tenant: 't' }));
    Object.assign(headers, { traceparent: '00-c-d-01', tracestate: 'of=relay' });
    expect({ ...headers }).toMatchObject({ traceparent: '00-a-b-01', tracestate: 'of=relay', tenant: 't' });
    const none = createEnvelope()(message());
    Object.assign(none, { traceparent: '00-c-d-01' });
    expect(none).toMatchObject({ traceparent: '00-c-d-01' });
  });

  it('adds the standard headers to the caller’s', () => {
    expect({ ...createEnvelope()(message({ traceparent: '00-a-b-01', tags: ['x', Buffer.from([0xff])] })) }).toEqual({
      id: ID,
      type: 'order.placed',
      version: '3',
      'content-type': 'application/json',
      time: '2026-11-21T10:05:01.123Z',
      traceparent: '00-a-b-01',
      tags: ['x', Buffer.from([0xff])],
    });
  });

  it('lets the standard headers win over the caller’s, and the caller’s over the transport’s', () => {
    const headers = createEnvelope({ headers: { origin: 'shop', region: 'eu', id: 'no' } })(
      message({ id: 'mine', region: 'us' }),
    );
    expect(headers).toMatchObject({ id: ID, origin: 'shop', region: 'us' });
  });

  it('hands bytes to the client as Buffers', () => {
    const headers = createEnvelope({ headers: { a: Uint8Array.of(0, 255), b: [Uint8Array.of(1), 'x'] } })(message());
    expect(headers['a']).toEqual(Buffer.from([0, 255]));
    expect(Buffer.isBuffer((headers['b'] as unknown[])[0])).toBe(true);
  });

  it('has no prototype, so that a header named like a property is only a header', () => {
    const hostile = JSON.parse('{"__proto__":"x","constructor":"y"}') as MessageHeaders;
    const headers = createEnvelope()(message(hostile));
    expect(Object.getPrototypeOf(headers)).toBeNull();
    expect(Object.keys(headers)).toEqual(expect.arrayContaining(['__proto__', 'constructor']));
  });

  it('does not share an object between messages', () => {
    const envelope = createEnvelope({ headers: { a: '1' } });
    expect(envelope(message())).not.toBe(envelope(message()));
  });

  it('writes CloudEvents attributes in place of the standard headers', () => {
    const envelope = createEnvelope({ cloudEvents: { source: '/shop' }, headers: { region: 'eu' } });
    expect({ ...envelope(message({ traceparent: 't' })) }).toEqual({
      ce_specversion: '1.0',
      ce_id: ID,
      ce_source: '/shop',
      ce_type: 'order.placed',
      ce_time: '2026-11-21T10:05:01.123Z',
      ce_subject: 'k',
      ce_dataversion: '3',
      'content-type': 'application/json',
      traceparent: 't',
      region: 'eu',
    });
    expect(envelope(message({ ce_subject: 'forged' }, null))).not.toHaveProperty('ce_subject');
  });

  it('uses the binding’s prefix and can leave the content type to the broker', () => {
    const amqp = createEnvelope({
      cloudEvents: { source: 'a' },
      cloudEventsPrefix: 'cloudEvents:',
      omitContentType: true,
    })(message());
    expect(amqp).toMatchObject({ 'cloudEvents:id': ID, 'cloudEvents:specversion': '1.0' });
    expect(amqp).not.toHaveProperty('content-type');
  });

  it.each([
    '2026-11-21 10:05:01',
    '2026-11-21 10:05:01+00',
    '2026-11-21 10:05:01.5+00',
    '2026-11-21 10:05:01.05',
    '2026-11-21 10:05:01.123456',
    '2026-11-21 10:05:01.999999+00',
    '2026-11-21 10:05:01.000',
  ])('prints %s as the date of the enqueue does', (text) => {
    expect(isoTime(text)).toBe(message({}, 'k', text).createdAt.toISOString());
  });
});
