import { inspect } from 'node:util';
import { isPrintable, printable } from './redact/printable.js';

export type LogFields = Readonly<Record<string, unknown>>;

/**
 * One line of log with its fields: text loggers print `relay started transports=default buckets=32`; JSON loggers
 * (Nest's with `json: true`, pino, winston) find each field as a property.
 */
export class LogLine {
  readonly message: string;
  readonly event: string;

  constructor(event: string, message: string, fields: LogFields = {}) {
    this.event = event;
    this.message = message;
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined && value !== null && !(name in this)) Object.assign(this, { [name]: value });
    }
  }

  toString(): string {
    const fields = Object.entries(this).filter(([name]) => name !== 'message' && name !== 'event');
    return [printable(this.message), ...fields.map(([name, value]) => `${name}=${fieldText(value)}`)].join(' ');
  }
  [inspect.custom](): string {
    return this.toString();
  }
}

function fieldText(value: unknown): string {
  if (Array.isArray(value)) return value.length > 10 ? `${value.length} items` : value.map(fieldText).join(',');
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  // JSON leaves C1 and marks of direction as they are.
  return /[\s"=]/.test(text) || !isPrintable(text) ? printable(JSON.stringify(text)) : text;
}
