import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlConnection } from '../../executor.js';
import type { MessageFilter } from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement, type Sql } from '../../sql.js';
import { marks } from '../statements.js';

export interface Conditions {
  readonly conditions: readonly string[];
  readonly values: readonly unknown[];
}

/** Finds the rows that an operator means. */
export class MysqlFind {
  constructor(
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {}

  /** Key, id and place of parked rows, first ones first. Those in other states must not use up the limit. */
  parked(filter: MessageFilter, states: readonly number[], limit: number): Sql {
    const { from, values } = this.meant(filter, states);
    const text = `select parked_id, id, transport, bucket ${from} order by seq, parked_id limit ?`;
    return statement(undefined, text).bindAll([...values, limit]);
  }

  /** How many of them there are, no further than `limit`. */
  countParked(filter: MessageFilter, states: readonly number[], limit: number): Sql {
    const { from, values } = this.meant(filter, states);
    return statement(undefined, `select count(*) from (select 1 ${from} limit ?) r`).bindAll([...values, limit]);
  }

  /** @internal */ meant(filter: MessageFilter, states: readonly number[]): { from: string; values: unknown[] } {
    const { conditions, values } = this.conditions(filter);
    conditions.push(inStates(states));
    const index = filter.ids === undefined ? '' : 'force index (by_id) ';
    return { from: `from ${this.names.parked} ${index}where ${conditions.join(' and ')}`, values };
  }

  /** Ids of parked rows that are being sent, and of those in one of these states; all of them in what the filter names. */
  late(filter: MessageFilter, states: readonly number[], named: readonly number[]): Sql {
    const { parked, leases } = this.names;
    const { conditions, values } = this.conditions(filter);
    const sent = `exists (select 1 from ${leases} l where l.transport = p.transport and l.bucket = p.bucket
      and l.epoch = p.sending_epoch and l.expires_at > utc_timestamp(6))`;
    const late = states.length === 0 ? sent : `(${inStates(states)} or ${sent})`;
    const ofNamed = filter.states === undefined ? [] : [inStates(named)];
    const text = `select id from ${parked} p where ${[...conditions, ...ofNamed, late].join(' and ')} order by parked_id limit ?`;
    return statement(undefined, text).bindAll([...values, filter.limit]);
  }

  /** @internal */ conditions(filter: MessageFilter): {
    conditions: string[];
    values: unknown[];
  } {
    const { ids, transport, key } = filter;
    const conditions: string[] = [];
    conditions.push(
      transport === undefined
        ? `transport in (select id from ${this.names.transports})`
        : `transport = ${Number(transport)}`,
    );
    if (ids !== undefined) conditions.push(ids.length === 0 ? '1 = 0' : `id in (${marks(ids.length)})`);
    if (key !== undefined) conditions.push(this.ofKey('blocking in (0, 1)'));
    const { topic, type } = filter;
    const texts = textConditions({ topic, type });
    const values = [...(ids ?? []), ...(key === undefined ? [] : [keyBytes(key)]), ...texts.values];
    return { conditions: [...conditions, ...texts.conditions], values };
  }

  /** Every column of the key index up to the message key. */
  ofKey(blocking: string): string {
    const buckets = Array.from({ length: this.settings.buckets }, (_, bucket) => bucket);
    return `bucket in (${buckets.join(', ')}) and ${blocking} and \`key\` = ?`;
  }

  /** Of these ids, those in the parked table, as the rest of the filter says. */
  async parkedAmong(connection: SqlConnection, ids: readonly string[], filter: Among): Promise<string[]> {
    const { conditions, values } = among(ids, filter);
    const text = `select id, transport from ${this.names.parked} force index (by_id) where ${conditions.join(' and ')}`;
    return idsOf((await connection.run(statement(undefined, text).bindAll(values))).rows, filter.transport);
  }
}

const inStates = (states: readonly number[]): string =>
  states.length === 0 ? '1 = 0' : `state in (${states.join(', ')})`;

/** What a filter says besides ids. */
export type Among = Partial<Pick<MessageFilter, 'transport' | 'key' | 'topic' | 'type'>>;

/** Rows of these ids, as far as the filter speaks of texts. */
export function among(ids: readonly string[], { key, topic, type }: Among): Conditions {
  const texts = textConditions({ key, topic, type });
  return { conditions: [`id in (${marks(ids.length)})`, ...texts.conditions], values: [...ids, ...texts.values] };
}

/** What a filter says of texts, in either table. As bytes: text would ignore trailing spaces. */
export function textConditions(filter: Partial<Record<'key' | 'topic' | 'type', string | undefined>>): Conditions {
  const columns = { key: '`key`', topic: 'cast(topic as binary)', type: 'cast(type as binary)' } as const;
  const names = (['key', 'topic', 'type'] as const).filter((name) => filter[name] !== undefined);
  return {
    conditions: names.map((name) => `${columns[name]} = ?`),
    values: names.map((name) => (name === 'key' ? keyBytes : utf8)(filter[name] as string)),
  };
}

const utf8 = (text: string): Buffer => Buffer.from(text, 'utf8');

function idsOf(rows: readonly (readonly unknown[])[], transport: number | undefined): string[] {
  const ours = rows.filter(([, of]) => transport === undefined || Number(of) === transport);
  return [...new Set(ours.map(([id]) => String(id)))];
}
