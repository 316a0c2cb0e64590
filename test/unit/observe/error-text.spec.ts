import { withoutCredentials } from '../../../lib/observe/redact/credentials.js';
import { errorText, MAX_ERROR_TEXT, redact } from '../../../lib/observe/redact/error-text.js';
import { OutboxError } from '../../../lib/outbox.errors.js';
import { AS_LONG_AS_IT_IS, costGrowth, cpuCost } from '../../support/cpu-cost.js';

describe('error texts', () => {
  it('names the error, its code and its causes', () => {
    const cause = Object.assign(new Error('connect refused'), { code: 'ECONNREFUSED' });
    expect(errorText(new TypeError('bad', { cause }))).toBe('TypeError: bad ← connect refused (ECONNREFUSED)');
    expect(errorText(new AggregateError([new Error('a'), new Error('b')], 'both'))).toBe('AggregateError: both [a; b]');
    expect(errorText('text')).toBe('text');
    expect(errorText(undefined)).toBe('undefined');
  });

  it('says once what an error repeats of its cause, and never takes an accident for that', () => {
    const failed = (cause: unknown): Error => new OutboxError('HANDLER_FAILED', 'Failed: Mailer.send.', { cause });
    for (const text of ['x', 'Outbox', 'send', 'Mailer.send', 'Failed']) {
      expect(errorText(failed(new Error(text)))).toBe(`OutboxError: Failed: Mailer.send. (HANDLER_FAILED) ← ${text}`);
    }
    const refused = new Error('refused', { cause: new Error('no route') });
    expect(errorText(new Error('refused', { cause: refused }))).toBe('refused ← no route');
    expect(errorText(new Error('cannot connect: refused', { cause: refused }))).toBe(
      'cannot connect: refused ← no route',
    );
    expect(errorText(new Error('the order was refused', { cause: refused }))).toBe(
      'the order was refused ← refused ← no route',
    );
  });

  it('never holds credentials, payloads or queries', () => {
    const error = Object.assign(
      new Error('cannot reach amqp://user:p%40ss@host/v and postgres://u:p@h/d password=hunter2'),
      {
        query: 'insert secret-query',
        parameters: ['secret-parameter'],
        config: { data: 'secret-config' },
      },
    );
    const text = errorText(error);
    expect(text).toBe('cannot reach amqp://***@host/v and postgres://***@h/d password=***');
    expect(redact('{"password": "x y", "a": 1}')).toBe('{"password": ***, "a": 1}');
  });

  it.each([
    ['Authorization: Bearer canary.a-b_c= was refused', 'Authorization: *** was refused'],
    ['Authorization: Basic canary==, 401', 'Authorization: ***, 401'],
    ['proxy-authorization=canary; 401', 'proxy-authorization=***; 401'],
    ['Authorization: Digest username="my canary", response="canary" failed', 'Authorization: *** failed'],
    ['Authorization: AWS4-HMAC-SHA256 Credential=canary/s3, Signature=canary', 'Authorization: ***'],
    ['{"authorization":"Bearer canary","a":1}', '{"authorization":***,"a":1}'],
    ['bad token: Bearer canary here', 'bad token: *** here'],
    ['https://h/?access_token=canary&b=1', 'https://h/?access_token=***&b=1'],
    ['{"refresh_token":"canary canary","a":1}', '{"refresh_token":***,"a":1}'],
    ['client_secret=canary, DB_PASSWORD=canary', 'client_secret=***, DB_PASSWORD=***'],
    ['AWS_SECRET_ACCESS_KEY=canary; x', 'AWS_SECRET_ACCESS_KEY=***; x'],
    ['accessToken: canary x-api-key: canary secret1=canary', 'accessToken: *** x-api-key: *** secret1=***'],
    ['{"password":"a\\"canary","a":"b"}', '{"password":***,"a":"b"}'],
    ["{ password: 'it\\'s canary', a: 1 }", '{ password: ***, a: 1 }'],
    ['{"data":"{\\"password\\":\\"my canary\\",\\"a\\":1}"}', '{"data":"{\\"password\\":***,\\"a\\":1}"}'],
    [String.raw`"{\"token\":\"a\\\"canary\",\"b\":1}"`, String.raw`"{\"token\":***,\"b\":1}"`],
    ['password="canary without an end', 'password=***'],
    ['Error: password=canary', 'Error: password=***'],
    ['dsn="host=h password=canary" a', 'dsn="host=h password=*** a'],
    ['Unexpected token } at 3, no password, a=b', 'Unexpected token } at 3, no password, a=b'],
  ])('hides what follows the name of a credential: %s', (text, shown) => {
    expect(redact(text)).toBe(shown);
  });

  it.each([
    ['a name', 'token'],
    ['a name and a sign', 'token-'],
    ['names and spaces', 'token  '],
    ['quotes', 'token="\\'],
    ['other quotes', "token=\"x'token='y"],
    ['backslashes', 'token\\'],
    ['schemes', 'authorization: a '],
    ['parameters', 'authorization: a b=c, '],
    ['users', 'ab://c'],
  ])('takes no time for 100 KB of %s', (_, piece) => {
    const texts = [
      (size: number) => piece.repeat(size / piece.length),
      (size: number) => `token: "${piece.repeat(size / 5)}`,
    ];
    for (const textOf of texts) {
      expect(costGrowth(withoutCredentials, textOf, 100_000)).toBeLessThan(AS_LONG_AS_IT_IS);
      expect(costGrowth(redact, textOf, 16_384)).toBeLessThan(AS_LONG_AS_IT_IS); // it reads no more
    }
  });

  it.each(['canary', '"canary" and canary', `{"card": ${'canary '.repeat(100)}}`, 'undefined canary'])(
    'does not quote what was no JSON: %s',
    (json) => {
      const parse = (): void => void JSON.parse(json);
      expect(parse).toThrow();
      try {
        parse();
      } catch (error) {
        const text = errorText(new Error('the handler failed', { cause: error }));
        expect(text).toContain('SyntaxError');
        expect(text).not.toContain('canary');
      }
    },
  );

  it('leaves quotes that are not of what was no JSON', () => {
    const end = ' is not valid JSON';
    expect(redact(`a ..."b" c "d"...${end}, "e"`)).toBe(`a this${end}, "e"`);
    for (const text of [`"a"`, `a${end}`, `"${end}`, `"a${end}`, `a${end} "b" c`]) expect(redact(text)).toBe(text);
  });

  it('is bounded in code points and clean', () => {
    expect(Array.from(errorText(new Error('😀'.repeat(5000))))).toHaveLength(MAX_ERROR_TEXT);
    expect(errorText(new Error('a\u0000b\nc\ud800d'))).toBe('a\\u0000b c\ufffdd');
  });

  it('takes no longer for quotes than for letters, however many', () => {
    const cost = (sign: string): number => {
      const error = new Error(sign.repeat(16_384));
      return cpuCost(() => errorText(error));
    };
    expect(cost('"')).toBeLessThan(20 * cost('x'));
  });

  it('survives errors that bite', () => {
    const hostile = new Proxy(new Error('x'), {
      get() {
        throw new Error('no');
      },
    });
    expect(errorText(hostile)).toBe('an error that cannot be read');
    const loop: { cause?: unknown } = new Error('loop');
    loop.cause = loop;
    expect(errorText(loop)).toBe('loop');
  });
});
