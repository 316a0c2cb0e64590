import { redact } from '../../../lib/observe/redact/error-text.js';
import { AS_LONG_AS_IT_IS, costGrowth } from '../../support/cpu-cost.js';

const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlIGNhbmFyeQ';
const PEM = '-----BEGIN PRIVATE KEY-----\ncanary\ncanary\n-----END PRIVATE KEY-----';

describe('J7: credentials in a text', () => {
  it.each([
    ['amqp://u:p/canary@h:5672 is away', 'amqp://***@h:5672 is away'],
    ['amqp://u:p#canary?x@h/v', 'amqp://***@h/v'],
    ['amqp://u:p@canary@h', 'amqp://***@h'],
    ['amqp://u:canary@h1,amqp://u:canary@h2', 'amqp://***@h1,amqp://***@h2'],
    ['no broker at u:canary@h:9092', 'no broker at ***@h:9092'],
    ['brokers="u:can/ary@h.example:9092"', 'brokers="***@h.example:9092"'],
    ['(:canary@h:6379)', '(***@h:6379)'],
  ])('are hidden before a host: %s', (text, shown) => {
    expect(redact(text)).toBe(shown);
  });

  it.each([
    ['passphrase=canary a', 'passphrase=*** a'],
    ['pass=canary&b=1', 'pass=***&b=1'],
    ['dbPass: canary, DB_PASS=canary', 'dbPass: ***, DB_PASS=***'],
    ['pw: "can ary", a', 'pw: ***, a'],
    ['credential=canary; credentials: canary', 'credential=***; credentials: ***'],
    ['{"private_key":"canary","a":1}', '{"private_key":***,"a":1}'],
    ['DefaultEndpointsProtocol=https;AccountName=n;AccountKey=canary==;A=b', 'DefaultEndpointsProtocol=https;AccountName=n;AccountKey=***;A=b'], // prettier-ignore
    ['Endpoint=sb://h/;SharedAccessKey=canary=', 'Endpoint=sb://h/;SharedAccessKey=***'],
    ['https://h/b?sv=1&sig=canary%3D&se=2', 'https://h/b?sv=1&sig=***&se=2'],
    ['https://h/b?X-Amz-Credential=canary&X-Amz-Signature=canary', 'https://h/b?X-Amz-Credential=***&X-Amz-Signature=***'], // prettier-ignore
    ['Cookie: sid=canary; a=canary\nHost: h', 'Cookie: ***\nHost: h'],
    ["{ 'set-cookie': 'sid=canary; Path=/', a: 1 }", "{ 'set-cookie': ***, a: 1 }"],
    ["Map(1) { 'password' => 'can ary' }", "Map(1) { 'password' => *** }"],
    ['no cookie: canary was told', 'no cookie: *** was told'],
  ])('are hidden behind their name: %s', (text, shown) => {
    expect(redact(text)).toBe(shown);
  });

  it.each([
    [`a ${PEM} b`, 'a *** b'],
    [`cut: ${PEM.slice(0, 40)}`, 'cut: ***'],
    [`{"key":${JSON.stringify(PEM)}}`, '{"key":"***"}'],
    [`jwt ${JWT}, expired`, 'jwt ***, expired'],
    [`cut ${JWT.slice(0, 40)}`, 'cut ***'],
  ])('are hidden by their shape: %#', (text, shown) => {
    expect(redact(text)).toBe(shown);
  });

  it('leave what only resembles them', () => {
    for (const text of [
      'Duplicate entry for key: uq, routingKey=a.b, partition key: 5, primary_key=1',
      'passive: declared, bypass: no, passed=5, design=x',
      'mail to a@b.example at 10:30, https://h/a?b=c:1',
      'no eyJ here, eyJ.a, key=order:1',
    ])
      expect(redact(text)).toBe(text);
  });

  it.each([
    ['users', 'u:p@h '],
    ['users of no host', 'u:p@'],
    ['colons', 'a:'],
    ['hosts', '@h:1'],
    ['URLs', 'ab://c@'],
    ['starts of JWTs', '-eyJaaaaaaa'],
    ['points of JWTs', 'eyJaaaaaa.'],
    ['starts of PEM', '-----BEGIN a-----'],
    ['dashes', '-----BEGIN '],
    ['cookies', 'cookie:a&'],
    ['cookies and signs', 'cookie: a= '],
    ['ends of words', '-pass'],
    ['keys', 'access_key=;'],
  ])('take no time to find in 16 KB of %s', (_, piece) => {
    const growth = (textOf: (times: number) => string): number =>
      costGrowth(redact, (size) => textOf(size / piece.length), 16_384);
    expect(growth((times) => piece.repeat(times))).toBeLessThan(AS_LONG_AS_IT_IS);
    expect(growth((times) => `https://h/${piece.trim().repeat(times)}`)).toBeLessThan(AS_LONG_AS_IT_IS);
  });
});
