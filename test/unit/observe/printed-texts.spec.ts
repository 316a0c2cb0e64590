import { inspect } from 'node:util';
import { OutboxConfigurationError, OutboxError } from '../../../lib/outbox.errors.js';

describe('what is printed', () => {
  it('Y3: an error that is printed says its hint once, and no cause that there is not', () => {
    const plain = new OutboxError('INVALID_OPTIONS', 'It is wrong.', { hint: 'Do it so.' });
    expect(inspect(plain).replace(/^ +at .*\n?/gm, '')).toBe(
      "OutboxError: It is wrong. Do it so.\n  code: 'INVALID_OPTIONS'\n}",
    );
    expect([plain.hint, plain.name, plain.code]).toEqual(['Do it so.', 'OutboxError', 'INVALID_OPTIONS']);
    expect(inspect(new OutboxError('INVALID_OPTIONS', 'It is wrong.'))).not.toMatch(/undefined|hint|cause/);
    const caused = new OutboxConfigurationError('INVALID_OPTIONS', 'It is wrong.', { cause: new Error('why') });
    expect(inspect(caused)).toMatch(/^OutboxConfigurationError: It is wrong\.[^]*\[cause\]: Error: why/);
  });
});
