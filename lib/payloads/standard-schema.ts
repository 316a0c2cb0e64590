import { INVALID, type Rule } from '../options/rules.js';

/**
 * A schema of zod, valibot, ArkType, Joi and others, by [Standard Schema](https://standardschema.dev), version 1: what it says of a
 * value is in `issues`, which are absent where it is right.
 */
export interface StandardSchema {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => unknown;
  };
}

/** What is wrong with a member: an issue of a Standard Schema, or a `ValidationError` of class-validator. */
export interface PayloadIssue {
  /** Names of members, from the outside in. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
  /** The same in class-validator: one name, and below it `children`. */
  readonly property?: string | undefined;
  readonly children?: readonly PayloadIssue[] | undefined;
}

/** A Standard Schema of the payload, or a function of the event that throws, or returns what is wrong. */
export type PayloadCheck<T> = StandardSchema | ((event: T) => void | readonly PayloadIssue[]);

/** Schemas of ArkType are functions: what has `~standard` is a schema. */
export function isSchema(check: unknown): check is StandardSchema {
  return check !== null && check !== undefined && '~standard' in Object(check);
}

/** Of one that is given as `undefined`, which a circular import makes of a schema: nothing would be checked. */
export const NO_CHECK = 'is undefined; leave it out to check nothing';

export const aPayloadCheck: Rule = {
  allowed: 'a function, or a schema with ~standard of version 1 (zod, valibot)',
  noText: true,
  parse(check) {
    if (!isSchema(check)) return typeof check === 'function' ? check : INVALID;
    const { version, validate } = Object(check['~standard']) as { version?: unknown; validate?: unknown };
    return version === 1 && typeof validate === 'function' ? check : INVALID;
  },
};
