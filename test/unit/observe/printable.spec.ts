import { ConsoleLogger } from '@nestjs/common';
import type { OutboxEventMap } from '../../../lib/index.js';
import { errorText } from '../../../lib/observe/redact/error-text.js';
import { logEvents } from '../../../lib/observe/log-events.js';
import { EventStream } from '../../../lib/observe/event-stream.js';
import { FakeClock } from '../../../lib/testing/index.js';

/** Escape and CSI of a terminal, backspace, DEL, ends of lines of Unicode, and what turns the direction of writing. */
const OBEYED = ['\u001b', '\u009b', '\u0008', '\u007f', '\u0085', '\u2028', '\u2029', '\u061c', '\u202e', '\u2066'];
const escapeOf = (sign: string): string => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`;

async function printed(emit: (events: EventStream) => void): Promise<string> {
  const clock = new FakeClock();
  const events = new EventStream(clock);
  const lines: string[] = [];
  const write = (text: unknown): boolean => lines.push(String(text)) > 0;
  const out = [jest.spyOn(process.stdout, 'write').mockImplementation(write), jest.spyOn(process.stderr, 'write').mockImplementation(write)]; // prettier-ignore
  try {
    logEvents(events, new ConsoleLogger({ colors: false }), 'debug', clock);
    emit(events);
    await clock.advance(0);
  } finally {
    out.forEach((spy) => spy.mockRestore());
  }
  return lines.join('');
}

describe('J6: what a terminal obeys', () => {
  const dead = (text: string): OutboxEventMap['dead'] => ({
    transport: 't',
    id: text,
    type: text,
    topic: text,
    attempts: 1,
    error: errorText(new Error(text)),
  });

  it('reaches no line of Nest’s logger, from names, errors or warnings', async () => {
    for (const sign of OBEYED) {
      const line = await printed((events) => {
        events.emit('dead', dead(`a${sign}[2Kb`));
        events.emit('warning', { text: `the topic c${sign}d` });
      });
      expect(line.replace(/\n$/, '').split('\n')).toHaveLength(2);
      expect(OBEYED.filter((one) => line.includes(one))).toEqual([]);
      expect(line).toContain(`type="a${escapeOf(sign).replace('\\u0008', '\\b')}[2Kb"`);
      expect(line).toContain(`the topic c${escapeOf(sign)}d`);
    }
  });

  it('is an escape in an error text, and ends of lines are a space', () => {
    const signs = OBEYED.filter((sign) => !['\u0085', '\u2028', '\u2029'].includes(sign));
    for (const sign of signs) expect(errorText(new Error(`a${sign}[31mb`))).toBe(`a${escapeOf(sign)}[31mb`);
    expect(errorText(new Error('a\r\n\tb\u0085c\u2028d\u2029'))).toBe('a b c d');
  });

  it('tells an escape from the same letters of a name', async () => {
    const of = await printed((events) => events.emit('dead', dead('a\u001bb')));
    const like = await printed((events) => events.emit('dead', dead('a\\u001b b')));
    expect(of).toContain('type="a\\u001bb"');
    expect(like).toContain('type="a\\\\u001b b"');
  });
});
