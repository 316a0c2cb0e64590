/** What operators have paused, for all instances. */

/** What a pause is of. */
export interface PauseScope {
  readonly transport: number;
  /** `null`: all topics. */
  readonly topic: string | null;
  /** `null`: all keys. */
  readonly key: string | null;
}
/** Of a whole transport. */
export const isWhole = ({ topic, key }: PauseScope): boolean => topic === null && key === null;
/** Whether a message is held back by it. */
export const covers = (scope: PauseScope, { transport, topic, key }: PauseScope): boolean =>
  scope.transport === transport && (scope.topic ?? topic) === topic && (scope.key ?? key) === key;
export interface Pause extends PauseScope {
  /** By the database's clock. */
  readonly since: Date;
  /** Who paused it, as the caller said. */
  readonly actor: string;
  /** For people. */
  readonly reason: string;
}
/** One that was ended and begun again is another one. */
export const nameOfPause = ({ transport, topic, key, since }: Pause): string =>
  JSON.stringify([transport, topic, key, since.getTime()]);
export interface NamedPause extends Pause {
  /** As the transport was registered. */
  readonly name: string;
}
/** Stands for `null` in the tables, where each of the three is part of the key. */
const ALL = '';
export const scopeColumns = ({ transport, topic, key }: PauseScope): [number, string, string] => [
  transport,
  topic ?? ALL,
  key ?? ALL,
];

/** @param since milliseconds since the epoch */
export function readPause(row: readonly unknown[]): Pause {
  const [transport, topic, key, since, actor, reason] = row;
  return {
    transport: Number(transport),
    topic: topic === ALL ? null : String(topic),
    key: key === ALL ? null : String(key),
    since: new Date(Number(since)),
    actor: String(actor),
    reason: String(reason),
  };
}

/** The same of a row with the name behind it; of a transport that is in no table its number is told. */
export function readNamedPause(row: readonly unknown[]): NamedPause {
  const [name] = row.slice(6);
  return { ...readPause(row), name: name === null ? String(row[0]) : String(name) };
}
