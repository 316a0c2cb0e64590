import { types } from 'node:util';
import { isMisread } from '../transports/broker-address.js';
import { milliseconds } from '../time/duration.js';
import { KEY_ID_HEADER } from '../message/encryption.js';
import { mediaType, type PayloadDeserializer } from '../message/serializer.js';
import { STANDARD_HEADERS } from '../transports/envelope.js';
import { unknownNames } from './option-names.js';
import { textProblem } from './text-checks.js';

/** What an option may be: in words, and as a check. */
export interface Rule {
  /** Completes "must be …". */
  readonly allowed: string;
  /** The value in the form that travels inward; `INVALID` when it is not allowed. Never sees `undefined`. */
  readonly parse: (value: unknown) => unknown;
  /** Never a text: one that is given all the same is not shown. */
  readonly noText?: true;
  /** Cannot be left out: `parse` sees `undefined`, too. */
  readonly needed?: true;
  /** What is wrong inside of a value that is allowed as a whole, each with its path. */
  readonly inside?: (value: unknown, path: string) => readonly string[];
}
export const INVALID = Symbol('invalid');

/** All that is wrong with a value; its text is not shown. */
export function problemsOf(rule: Rule, value: unknown, path: string): readonly string[] {
  if (rule.parse(value) === INVALID) return [`${path} must be ${rule.allowed}`];
  return rule.inside?.(value, path) ?? [];
}

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

/** What a column of 255 characters holds. */
export const aName: Rule = {
  allowed: 'a string',
  parse: (value) => value,
  inside: (value, path) => [textProblem(path, value) ?? []].flat(),
};

export const aFunction: Rule = {
  allowed: 'a function',
  noText: true,
  parse: (value) => (typeof value === 'function' ? value : INVALID),
};

export const anObject: Rule = {
  allowed: 'an object',
  parse: (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : INVALID),
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

/** Headers that each message has of the outbox. */
const TAKEN: ReadonlySet<string> = new Set([...Object.values(STANDARD_HEADERS), KEY_ID_HEADER]);

/** Its content type is stored with each message, where a lax server would cut it. */
export const aSerializer: Rule = {
  allowed:
    'an object with serialize(), deserialize(), headers of its own (or none) and a contentType of 1 to 255 characters',
  noText: true,
  parse(value) {
    const { headers = [] } = Object(value) as { headers?: unknown };
    const isOwn = (name: unknown): boolean => textProblem('headers', name) === undefined && !TAKEN.has(name as string);
    if (!isReader(value) || !Array.isArray(headers) || !headers.every(isOwn)) return INVALID;
    return having('serialize').parse(value);
  },
};

function isReader(value: unknown): boolean {
  if (having('deserialize').parse(value) === INVALID) return false;
  return textProblem('contentType', (value as PayloadDeserializer).contentType) === undefined;
}

/** One, or one and what only reads, for handlers in the process: each of a content type of its own. */
export const someSerializers: Rule = {
  allowed: `${aSerializer.allowed}; or an array of one and of others that need no serialize(), each of another type`,
  noText: true,
  parse(value) {
    if (!Array.isArray(value)) return aSerializer.parse(value);
    const [first, ...readers] = value as PayloadDeserializer[];
    if (aSerializer.parse(first) === INVALID || !readers.every(isReader)) return INVALID;
    const names = new Set((value as PayloadDeserializer[]).map(({ contentType }) => mediaType(contentType)));
    return names.size === value.length ? Object.freeze([...value]) : INVALID;
  },
};

/** An address is never shown: it may hold a password. */
export const aPooler: Rule = {
  allowed: 'true, false, or a URL with user, host and database: postgres://user:password@host:5432/database',
  noText: true,
  parse(value) {
    if (typeof value === 'boolean') return value;
    if (typeof value !== 'string' || isMisread(value)) return INVALID;
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

/** Passed on as it is, or checked with others. */
export const anything: Rule = { allowed: 'anything', parse: (value) => value };

export const trueOrFalse: Rule = {
  allowed: 'true or false',
  parse: (value) => (typeof value === 'boolean' ? value : INVALID),
};

export function needed(rule: Rule): Rule {
  return { ...rule, needed: true };
}

/** `null` stands for what is not given. */
export function orNullFor(rule: Rule, otherwise: unknown): Rule {
  return { ...rule, parse: (value) => (value === null ? otherwise : rule.parse(value)) };
}

export function orFunction(rule: Rule, allowed = `${rule.allowed}, or a function`): Rule {
  const { inside } = rule;
  return {
    allowed,
    parse: (value) => (typeof value === 'function' ? value : rule.parse(value)),
    ...(inside && { inside: (value, path) => (typeof value === 'function' ? [] : inside(value, path)) }),
  };
}

/** An object with these names and no others. */
export function objectOf(
  fields: Readonly<Record<string, Rule>>,
  allowed = anObject.allowed,
): Rule & Required<Pick<Rule, 'inside'>> {
  return {
    allowed,
    parse: anObject.parse,
    inside(value, path) {
      const given = value as Readonly<Record<string, unknown>>;
      const unknown = unknownNames(given, Object.keys(fields)).map((problem) => `${path}.${problem}`);
      const checked = Object.entries(fields).filter(([name, rule]) => given[name] !== undefined || rule.needed);
      return [...unknown, ...checked.flatMap(([name, rule]) => problemsOf(rule, given[name], `${path}.${name}`))];
    },
  };
}

export function listOf(rule: Rule): Rule {
  return {
    allowed: 'an array',
    parse: (value) => (Array.isArray(value) ? value : INVALID),
    inside: (list, path) => (list as unknown[]).flatMap((entry, n) => problemsOf(rule, entry, `${path}[${n}]`)),
  };
}

/** Headers that a transport adds to every message. A list or a Map has no names of its own, and nothing of it would be sent. */
export const fixedHeaders: Rule = {
  allowed: 'an object of names and values',
  parse: (value) => (typeof value === 'object' && value !== null && !(Symbol.iterator in value) ? value : INVALID),
  inside: (headers, path) =>
    Object.entries(headers as object)
      .filter(([, value]) => ![value].flat().every((one) => typeof one === 'string' || types.isUint8Array(one)))
      .map(([name]) => `${path}.${name} must be a string, a Uint8Array or an array of those`),
};

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
