import type { QueryRunner } from 'typeorm';

/**
 * How a statement fails: it is never sent, as in a driver that cannot convert a value; it is executed and the answer is lost, as at a
 * timeout of the driver; or the server refuses it.
 */
export type StatementFault = 'unsent' | 'unanswered' | 'refused';

interface Asked {
  text?: string;
  sql?: string;
}
type Query = (this: unknown, asked: unknown, ...rest: unknown[]) => unknown;
type Done = (error: Error | null, result?: unknown) => void;

/**
 * Faults in the enqueues on one connection: of the statements that the outbox sends the one `fault` counts down to fails. What the
 * application sends itself passes.
 */
export class FaultyClient {
  fault: { after: number; kind: StatementFault } | undefined;
  /** How many statements of the outbox were asked for. */
  sent = 0;

  static async of(runner: QueryRunner): Promise<FaultyClient> {
    const client = (await runner.connect()) as { query: Query };
    const faulty = new FaultyClient();
    const { query } = client;
    client.query = function (asked, ...rest) {
      const kind = faulty.due(asked);
      if (kind === undefined) return query.call(this, asked, ...rest);
      const pass = (changed: unknown): unknown => query.call(this, changed, ...rest);
      const done = rest.at(-1) as Done | undefined;
      if (typeof done === 'function')
        return onMysql(kind, asked, done, (...args) => query.apply(this, args as [unknown]));
      return onPostgres(kind, asked, pass as (changed: unknown) => Promise<unknown>);
    };
    return faulty;
  }

  /** @internal */ due(asked: unknown): StatementFault | undefined {
    const { text, sql } = (typeof asked === 'object' ? asked : {}) as Asked;
    if (!/outbox_/.test(text ?? sql ?? '')) return undefined;
    this.sent += 1;
    if (this.fault === undefined || this.fault.after-- > 0) return undefined;
    const { kind } = this.fault;
    this.fault = undefined;
    return kind;
  }
}

const lost = (): Error => new Error('The driver gave up.');

async function onPostgres(
  kind: StatementFault,
  asked: unknown,
  pass: (changed: unknown) => Promise<unknown>,
): Promise<unknown> {
  if (kind === 'refused') return pass({ ...(asked as Asked), name: undefined, text: 'select 1 / 0', values: [] });
  if (kind === 'unanswered') await pass(asked);
  throw lost();
}

function onMysql(kind: StatementFault, asked: unknown, done: Done, pass: Query): void {
  if (kind === 'unsent') process.nextTick(() => done(lost()));
  else if (kind === 'unanswered') pass(asked, () => done(lost()));
  else pass({ ...(asked as Asked), sql: `signal sqlstate '45000'`, values: [] }, done);
}
