import { didYouMean } from './did-you-mean.js';
import { durationText } from '../time/duration.js';
import { jsonSerializer } from '../message/json-serializer.js';
import { uuidV7 } from '../message/uuid-v7.js';
import { OPTIONS_TABLE } from './table.js';
import { INVALID, type Rule } from './rules.js';
import type { OutboxExtras, OutboxOptions, ResolvedOptions } from '../outbox.options.js';
import { misconfigured } from '../outbox.errors.js';
import { LOOKAHEAD, MOST_PARTITIONS, SHORTEST, type PartitionPeriod } from '../store/partitions/period.js';
import { list, show, showNoText } from './show.js';
import { toDefinitions } from './transport-option.js';

/**
 * What a lease leaves for settling after a publish, and for everything nobody thought of. No limit: a statement may take longer
 * (`STATEMENT_TIMEOUT`), and the lease is renewed beside it. Where it is not, only a success counts that comes after its end.
 */
export const SETTLE_TIMEOUT = 5_000;
export const LEASE_MARGIN = 2_000;
/** How long a renewed lease is good for one more publish, at the least: without it no publish could ever begin. */
export const LEASE_ROOM = 1_000;

const EXTRAS = ['name', 'isGlobal', 'dataSource'];

type Values = Map<string, unknown>;

/** Checks everything once and reports all problems together. */
export function resolveOptions(input: OutboxOptions, extras: OutboxExtras = {}): ResolvedOptions {
  const problems: string[] = [];
  refuseNoObject(input);
  unknownKeys(input, problems);
  const values = readValues(input, problems);
  const transports = toDefinitions(input.transports, problems);
  const name = checkName(extras.name, problems);
  if (problems.length === 0) {
    values.set('defaultTransport', defaultTransport(values.get('defaultTransport'), [...transports.keys()], problems));
    crossChecks(values, problems);
  }
  if (problems.length > 0) invalid([...new Set(problems)]);
  return assemble(name, transports, values);
}

export function refuseNoObject(given: unknown): void {
  if (typeof given === 'object' && given !== null && !(given instanceof Promise)) return;
  const example = '{ transports: { default: inProcess() } }';
  invalid([`options: is ${showNoText(given)}; must be an object with 'transports', for example ${example}`]);
}

function unknownKeys(input: OutboxOptions, problems: string[]): void {
  const known = ['transports', ...OPTIONS_TABLE.map((row) => row.name)];
  const groups = new Set(known.filter((name) => name.includes('.')).map((name) => name.split('.')[0] as string));
  const top = new Set(known.map((name) => name.split('.')[0] as string));
  for (const key of Object.keys(input)) {
    if (EXTRAS.includes(key)) problems.push(`${key}: belongs beside useFactory, it is needed before that runs`);
    else if (!top.has(key)) problems.push(unknownKey(key, key, known));
    const group = (input as unknown as Record<string, unknown>)[key];
    if (!groups.has(key) || typeof group !== 'object' || group === null) continue;
    for (const inner of Object.keys(group)) {
      if (!known.includes(`${key}.${inner}`)) problems.push(unknownKey(`${key}.${inner}`, inner, known));
    }
  }
}

/** Looks in all groups: `maxAttempts` at the top means `retry.maxAttempts`. */
function unknownKey(path: string, key: string, known: readonly string[]): string {
  const byLastPart = new Map(known.map((name) => [name.slice(name.indexOf('.') + 1), name]));
  const meant = didYouMean(path, known) ?? byLastPart.get(didYouMean(key, byLastPart.keys()) ?? '');
  return `${path}: unknown option${meant === undefined ? '' : `; did you mean '${meant}'?`}`;
}

function readValues(input: OutboxOptions, problems: string[]): Values {
  const values: Values = new Map();
  for (const row of OPTIONS_TABLE) {
    const [group, inner] = row.name.split('.') as [string, string?];
    const outer = (input as unknown as Record<string, unknown>)[group];
    if (inner !== undefined && outer !== undefined && (typeof outer !== 'object' || outer === null)) {
      problems.push(`${group}: is ${showNoText(outer)}; must be an object`);
      continue;
    }
    const given = inner === undefined ? outer : (outer as Record<string, unknown> | undefined)?.[inner];
    const value = given === undefined ? row.default : given;
    const parsed = value === undefined ? undefined : row.rule.parse(value);
    if (parsed === INVALID) problems.push(`${row.name}: ${wrong(given, row.rule)}`);
    else values.set(row.name, parsed);
  }
  return values;
}

function wrong(given: unknown, { allowed, noText }: Rule): string {
  if (noText) return `is ${showNoText(given)}; must be ${allowed}`;
  return `is ${show(given)}; must be ${allowed}${suggestion(given, allowed)}`;
}

function suggestion(given: unknown, allowed: string): string {
  if (typeof given !== 'string') return '';
  const meant = didYouMean(
    given,
    [...allowed.matchAll(/'([^']+)'/g)].map((match) => match[1] as string),
  );
  return meant === undefined ? '' : `; did you mean '${meant}'?`;
}

function checkName(name: unknown, problems: string[]): string {
  if (name === undefined) return 'default';
  if (typeof name === 'string' && /^[A-Za-z0-9_.-]{1,64}$/.test(name)) return name;
  problems.push(`name: is ${show(name)}; must be 1 to 64 letters, digits, _, . or -`);
  return 'default';
}

function defaultTransport(given: unknown, names: readonly string[], problems: string[]): string {
  if (given === undefined) {
    if (names.includes('default')) return 'default';
    if (names.length === 1) return names[0] as string;
    problems.push(`defaultTransport: must be one of ${list(names)}, as none of them is named 'default'`);
    return '';
  }
  if (!names.includes(given as string)) {
    const meant = didYouMean(given as string, names);
    problems.push(
      `defaultTransport: is ${show(given)}; must be one of ${list(names)}${meant === undefined ? '' : `; did you mean '${meant}'?`}`,
    );
  }
  return given as string;
}

function crossChecks(values: Values, problems: string[]): void {
  const [lease, publish] = [values.get('lease') as number, values.get('publishTimeout') as number];
  const longest = lease - SETTLE_TIMEOUT - LEASE_MARGIN - LEASE_ROOM;
  if (publish > longest) {
    problems.push(
      `publishTimeout: is ${durationText(publish)}; must be at most lease − 8s (5s to settle, 2s margin, 1s to begin after a renewal), ` +
        `which is ${durationText(Math.max(0, longest))} with a lease of ${durationText(lease)}`,
    );
  }
  if (values.get('coordination') === 'rowLock' && values.get('ordering') !== 'none') {
    problems.push(`coordination: 'rowLock' keeps no order; it must go with ordering: 'none'`);
  }
  if ((values.get('retry.initial') as number) > (values.get('retry.max') as number)) {
    problems.push(`retry.initial: must not be longer than retry.max`);
  }
  checkPartitions(values, problems);
}

function checkPartitions(values: Values, problems: string[]): void {
  const period = values.get('partitions.period') as PartitionPeriod | undefined;
  if (period === undefined) return;
  const count = Math.ceil((LOOKAHEAD[period] + (values.get('retention.published') as number)) / SHORTEST[period]);
  if (count <= MOST_PARTITIONS) return;
  problems.push(
    `partitions.period: is '${period}', which takes ${count} partitions for retention.published; at most ${MOST_PARTITIONS} are kept: use a longer period`,
  );
}

function assemble(name: string, transports: ResolvedOptions['transports'], values: Values): ResolvedOptions {
  const out: Record<string, unknown> = { name, transports, retry: { onDead: values.get('onDead') } };
  for (const row of OPTIONS_TABLE) {
    const [group, inner] = row.name.split('.') as [string, string?];
    if (inner === undefined) out[group] = values.get(row.name);
    else ((out[group] ??= {}) as Record<string, unknown>)[inner] = values.get(row.name);
  }
  const retry = out['retry'] as Record<string, unknown>;
  retry['maxAge'] ??= null;
  const partitions = out['partitions'] as Record<string, unknown>;
  partitions['retention'] = values.get('retention.published');
  delete out['onDead'];
  const [serializer = jsonSerializer, ...readers] = [(out['serializer'] as object | undefined) ?? []].flat();
  Object.assign(out, { serializer, deserializers: Object.freeze(readers) });
  out['idGenerator'] ??= uuidV7;
  for (const group of [retry, out['database'], out['retention'], partitions, out]) Object.freeze(group);
  return out as unknown as ResolvedOptions;
}

function invalid(problems: readonly string[]): never {
  const count = problems.length === 1 ? 'One option is' : `${problems.length} options are`;
  misconfigured(`${count} wrong:\n${problems.map((p) => `  - ${p}`).join('\n')}`);
}
