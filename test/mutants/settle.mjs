/** What became of a message is written once, and told. */
export const SETTLE = [
  {
    name: 'settle-before-publish',
    breaks: 'a message is removed before the broker has it',
    file: 'lib/relay/transport-relay.ts',
    from: 'void this.send(batch);',
    to: `for (const message of batch.messages) this.published(message);
      void this.send(batch);`,
    every: true,
  },
  {
    name: 'settle-error-swallowed',
    breaks: 'what could not be written is forgotten as if it were',
    file: 'lib/relay/settle/batch-writer.ts',
    from: 'pause = this.keep(batch, error, this.clock.monotonic() - since);',
    to: 'this.wrote(batch, 0);',
  },
  {
    name: 'success-needs-lease',
    breaks: 'what was published is not written down once the lease is gone, and is published again',
    file: 'lib/relay/settle/settler.ts',
    from: 'this.store.ready.settle(transport, batch, onPublished)',
    to: 'this.store.ready.settle(transport, batch.filter(({ bucket }) => this.leaseOf(bucket) !== undefined), onPublished)',
    contract: 'test/unit/relay/late-success.spec.ts',
    simulation: false,
    chaos: false,
  },
  {
    name: 'settle-by-place-only',
    breaks: 'PostgreSQL: a late success removes whatever stands in its place',
    file: 'lib/store/postgres/ready/statements.ts',
    from: `and o.seq = k.s and o.id = k.i offset 0) x))\`;

/** Locks`,
    to: `and o.seq = k.s and (o.id = k.i or true) offset 0) x))\`;

/** Locks`,
    contract: 'test/contract/store-postgres.spec.ts',
    chaos: false,
  },
  {
    chaos: false,
    contract: 'test/contract/store-mariadb.spec.ts',
    name: 'mariadb-archived-twice',
    breaks: 'MariaDB: a message that is named twice in one settle is archived twice',
    file: 'lib/store/mysql/ready/settle.ts',
    from: 'new Map(known.map((row) => [row.parkedId, row]))',
    to: 'new Map(known.map((row, n) => [n, row]))',
  },
  {
    name: 'death-recheck',
    breaks: 'a death counts as told, and the dead-letter hook was never called',
    file: 'lib/relay/settle/dead-letters.ts',
    from: 'Promise.resolve(this.hook(event))',
    to: 'Promise.resolve(event)',
  },
  {
    name: 'repark-of-a-former-life',
    breaks: 'PostgreSQL: a failure that is written again kills what an operator has requeued meanwhile',
    file: 'lib/store/postgres/parked/statements.ts',
    from: ' and o.attempts = k.before',
    to: '',
    contract: 'test/contract/store-postgres.spec.ts',
    chaos: false,
  },
  {
    name: 'taken-past-a-change',
    breaks: 'what stands behind a parked row that an operator changes meanwhile goes without it',
    file: 'lib/store/sql/take.ts',
    from: 'return missing < 0 ? run : run.slice(0, missing);',
    to: 'return missing < 0 ? run : run.filter((id) => there.has(id));',
    contract: 'test/integration/postgres/take-races.spec.ts',
    chaos: false,
  },
];
