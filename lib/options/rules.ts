import { milliseconds } from '../time/duration.js';
import { textProblem } from './text-checks.js';

/** What an option may be: in words, and as a check. */
export interface Rule {
  /** Completes "must be …". */
  readonly allowed: string;
  /** The value in the form that travels inward; `INVALID` when it is not allowed. Never sees `undefined`. */
  readonly parse: (value: unknown) => unknown;
  /** Never a text: one that is given all the same is not shown. */
  readonly noText?: true;
}
export const INVALID = Symbol('invalid');

/** Whole milliseconds or text with a unit, within bounds given as text. */
export function duration(min: string, max: string): Rule {
  const [from, to] = [milliseconds(min) as number, milliseconds(max) as number];
  return {
    allowed: `a duration from ${min} to ${max}: whole milliseconds, or text with ms, s, m, h or d`,
    parse(value) {
      const ms = milliseconds(value);
      return ms === undefined || ms < from || ms > to ? INVALID : ms;
    },
  };
}

export function integer(min: number, max: number): Rule {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    parse: (value) =>
      Number.isInteger(value) && (value as number) >= min && (value as number) <= max ? value : INVALID,
  };
}

export function oneOf(...choices: readonly (string | boolean)[]): Rule {
  return {
    allowed: choices.map((choice) => (typeof choice === 'string' ? `'${choice}'` : choice)).join(' | '),
    parse: (value) => (choices.includes(value as string) ? value : INVALID),
  };
}

export function text(pattern: RegExp, allowed: string): Rule {
  return { allowed, parse: (value) => (typeof value === 'string' && pattern.test(value) ? value : INVALID) };
}

export const aFunction: Rule = {
  allowed: 'a function',
  noText: true,
  parse: (value) => (typeof value === 'function' ? value : INVALID),
};

/** An object with these methods; it is kept as it is. */
export function having(...methods: readonly string[]): Rule {
  return {
    allowed: `an object with ${methods.join('(), ')}()`,
    noText: true,
    parse(value) {
      const target = Object(value) as Record<string, unknown>;
      return value !== null && methods.every((method) => typeof target[method] === 'function') ? value : INVALID;
    },
  };
}

/** Its content type is stored with each message, where a lax server would cut it. */
export const aSerializer: Rule = {
  allowed: 'an object with serialize(), deserialize() and a contentType of 1 to 255 characters',
  noText: true,
  parse(value) {
    const { contentType } = Object(value) as { contentType?: unknown };
    if (textProblem('contentType', contentType) !== undefined) return INVALID;
    return having('serialize', 'deserialize').parse(value);
  },
};

/** Never shown: it may hold a password. */
export const postgresUrl: Rule = {
  allowed: 'a URL with user, host and database: postgres://user:password@host:5432/database',
  noText: true,
  parse(value) {
    if (typeof value !== 'string' || !URL.canParse(value)) return INVALID;
    const { protocol, username, hostname, pathname } = new URL(value);
    const isWhole = username !== '' && hostname !== '' && /^\/[^/]+$/.test(pathname);
    return /^postgres(ql)?:$/.test(protocol) && isWhole ? value : INVALID;
  },
};

export function orNull(rule: Rule): Rule {
  return { allowed: `${rule.allowed}, or null`, parse: (value) => (value === null ? null : rule.parse(value)) };
}

/** The rule, or `{ cron: text }`, perhaps with `CronJob`; the expression is checked by the cron package when the cleaner starts. */
export function orCron(rule: Rule): Rule {
  return {
    allowed: `${rule.allowed}; or { cron: '0 3 * * *', CronJob? }`,
    parse(value) {
      if (typeof value !== 'object' || value === null) return rule.parse(value);
      const { cron, CronJob, ...rest } = value as { cron?: unknown; CronJob?: { from?: unknown } | null };
      const valid = typeof cron === 'string' && cron.trim().split(/\s+/).length >= 5 && Object.keys(rest).length === 0;
      if (!valid) return INVALID;
      if (CronJob === undefined) return Object.freeze({ cron });
      return typeof CronJob?.from === 'function' ? Object.freeze({ cron, CronJob }) : INVALID;
    },
  };
}

/** `{ encrypt, decrypt, deliver?, required? }`, kept as it is: it may be an instance of a class. */
export const encryption: Rule = {
  allowed:
    "an object with encrypt(), decrypt(), and, if any, deliver 'plain' or 'encrypted' and a boolean or function required",
  noText: true,
  parse(value) {
    const { deliver = 'plain', required = false } = Object(value) as { deliver?: unknown; required?: unknown };
    if (deliver !== 'plain' && deliver !== 'encrypted') return INVALID;
    if (typeof required !== 'boolean' && typeof required !== 'function') return INVALID;
    return having('encrypt', 'decrypt').parse(value);
  },
};
