import type { InjectionToken, Type } from '@nestjs/common';
import type { TransportDefinition } from '../outbox.options.js';
import type { OutboxTransport } from '../transports/transport.js';
import { callOf } from './factory-options.js';
import { list, show, showNoText } from './show.js';

const ALLOWED = 'a definition such as kafka({ … }), a transport, its class, a DI token, or { inject, useFactory }';
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const RECEIPTS = ['broker', 'handler', 'none'] as const;
type Receipt = (typeof RECEIPTS)[number];

/** Brings every form of a transport to a definition; loads and creates nothing. */
export function toDefinitions(option: unknown, problems: string[]): ReadonlyMap<string, TransportDefinition> {
  const definitions = new Map<string, TransportDefinition>();
  if (typeof option !== 'object' || option === null || Array.isArray(option)) {
    problems.push(
      `transports: is ${showNoText(option)}; must be an object of name → transport, for example { default: inProcess() }`,
    );
    return definitions;
  }
  const entries = Object.entries(option as Record<string, unknown>);
  if (entries.length === 0) problems.push('transports: is empty; must name at least one transport');
  for (const [name, value] of entries) {
    if (!NAME.test(name)) problems.push(`transports.${name}: a name must be 1 to 64 letters, digits, _, . or -`);
    const definition = toDefinition(value);
    if (typeof definition === 'string') problems.push(`transports.${name}: ${definition}`);
    else definitions.set(name, definition);
  }
  return definitions;
}

/** @returns the definition, or what is wrong. */
function toDefinition(value: unknown): TransportDefinition | string {
  if ((typeof value === 'string' && value !== '') || typeof value === 'symbol') return injected(value);
  if (typeof value === 'function') return ofFunction(value as Type);
  if (typeof value !== 'object' || value === null) return `is ${show(value)}; must be ${ALLOWED}`;
  const object = value as Record<string, unknown>;
  if (typeof object['publish'] === 'function') return ofInstance(value as OutboxTransport);
  if (typeof object['forwardRef'] === 'function') return injected((object['forwardRef'] as () => InjectionToken)());
  if (typeof object['useFactory'] === 'function') return ofFactory(object);
  if (typeof object['create'] === 'function' && typeof object['kind'] === 'string') {
    return receiptProblem(object['receipt']) ?? (value as TransportDefinition);
  }
  return `is ${show(value)}; must be ${ALLOWED}`;
}

/** Any other function may be somebody's DI token: whether it is one is seen when the relay asks for it. */
function ofFunction(value: Type): TransportDefinition | string {
  const call = callOf(value);
  return call === undefined
    ? injected(value, value.name)
    : `is ${show(value)}, not what it returns; did you mean ${call}?`;
}

/** Neither a class nor what a compiler makes of one, as far as one can see. */
export function isPlainFunction(value: unknown): value is (...args: never[]) => unknown {
  if (typeof value !== 'function' || /^class\b/.test(Function.prototype.toString.call(value))) return false;
  const prototype = value.prototype as object | undefined;
  return prototype === undefined || Object.getOwnPropertyNames(prototype).every((name) => name === 'constructor');
}

/** What it is worth is known when it was created; until then it counts as confirmed, and `none` is refused then. */
function injected(token: InjectionToken, kind = 'custom'): TransportDefinition {
  return { kind, receipt: 'broker', inject: [token], create: (transport) => transport as OutboxTransport };
}

function ofInstance(transport: OutboxTransport): TransportDefinition | string {
  if (transport.receipt === 'none') {
    return "confirms nothing (receipt 'none'); if losses are acceptable, say so: { useFactory: () => transport, receipt: 'none' }";
  }
  const problem = receiptProblem(transport.receipt);
  if (problem !== undefined) return problem;
  const kind = transport.constructor?.name ?? 'custom';
  return { kind, receipt: transport.receipt, ...limitsOf(transport), create: () => transport };
}

function ofFactory(object: Record<string, unknown>): TransportDefinition | string {
  const useFactory = object['useFactory'] as TransportDefinition['create'];
  const inject = object['inject'] ?? [];
  if (!Array.isArray(inject)) return `inject is ${show(inject)}; must be an array of DI tokens`;
  const receipt = object['receipt'] ?? 'broker';
  const problem = receiptProblem(receipt);
  if (problem !== undefined) return problem;
  return {
    kind: 'custom',
    receipt: receipt as Receipt,
    ...limitsOf(object),
    inject: inject as InjectionToken[],
    create: (...dependencies) => useFactory(...dependencies),
  };
}

function limitsOf(from: { limits?: unknown }): { limits?: NonNullable<OutboxTransport['limits']> } {
  return typeof from.limits === 'object' && from.limits !== null ? { limits: from.limits } : {};
}

function receiptProblem(receipt: unknown): string | undefined {
  return RECEIPTS.includes(receipt as Receipt)
    ? undefined
    : `receipt is ${show(receipt)}; must be one of ${list(RECEIPTS)}`;
}
