import type { SqlConnection } from '../../executor.js';
import type { ReadyStore } from '../../ready-store.js';
import type { TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { plainArray } from '../arrays.js';
import { payloadColumn, readPayload, textOrBytes, type PayloadAs } from '../columns.js';

type Unread = Parameters<ReadyStore['readPayloads']>[1][number];
/** With its index in the call. */
type Asked = Unread & { readonly n: number };

/** Large payloads, when their turn has come. */
export class PostgresPayloads {
  private readonly ready: Record<PayloadAs, Statement>;
  private readonly parked: Record<PayloadAs, Statement>;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
  ) {
    this.ready = { text: ofReady(names, 'text'), bytes: ofReady(names, 'bytes') };
    this.parked = { text: ofParked(names, 'text'), bytes: ofParked(names, 'bytes') };
  }

  async read(transport: number, messages: readonly Unread[]): Promise<(string | Buffer | undefined)[]> {
    const found = new Array<string | Buffer | undefined>(messages.length).fill(undefined);
    const asked = messages.map((message, n) => ({ ...message, n }));
    const ready = asked.filter(({ parkedId }) => parkedId === null);
    const parked = asked.filter(({ parkedId }) => parkedId !== null);
    if (ready.length > 0) await this.into(found, this.ready, [...placesOf(ready), transport]);
    if (parked.length > 0)
      await this.into(found, this.parked, [numbersOf(parked), plainArray(parked.map(({ parkedId }) => parkedId))]);
    return found;
  }

  private async into(
    found: (string | Buffer | undefined)[],
    statements: Record<PayloadAs, Statement>,
    values: readonly unknown[],
  ): Promise<void> {
    await textOrBytes(async (as) => {
      const { rows } = await this.connection().run(statements[as].bind(...values));
      for (const [n, payload] of rows) found[Number(n)] = readPayload(payload as string, as) ?? undefined;
    });
  }
}

const numbersOf = (messages: readonly Asked[]): string => plainArray(messages.map(({ n }) => n));
const placesOf = (messages: readonly Asked[]): string[] => [
  numbersOf(messages),
  plainArray(messages.map(({ bucket }) => bucket)),
  plainArray(messages.map(({ seq }) => seq)),
  plainArray(messages.map(({ id }) => id)),
];

function ofReady({ ready }: TableNames, as: PayloadAs): Statement {
  return statement(
    `outbox_payloads_${as}`,
    `select k.n, x.payload from unnest(?::int[], ?::smallint[], ?::bigint[], ?::uuid[]) k(n, b, s, i)
     cross join lateral (select ${payloadColumn(as)} as payload from ${ready} o
       where o.transport = ? and o.bucket = k.b and o.seq = k.s and o.id = k.i offset 0) x`,
  );
}

function ofParked({ parked }: TableNames, as: PayloadAs): Statement {
  return statement(
    `outbox_parked_payloads_${as}`,
    `select k.n, x.payload from unnest(?::int[], ?::bigint[]) k(n, p)
     cross join lateral (select ${payloadColumn(as)} as payload from ${parked} o where o.parked_id = k.p offset 0) x`,
  );
}
