/** Bugs in the statements and connections of MySQL and MariaDB: real servers only. */
const STORE = 'test/contract/store-mariadb.spec.ts';
const TRANSACTIONS = 'test/integration/mysql/transactions.spec.ts';
const EXECUTOR = 'test/integration/mysql/executor.spec.ts';
const LEASES = 'lib/store/mysql/ops/leases.ts';
const SETTLE = 'lib/store/mysql/ready/settle.ts';
const SESSION = 'lib/data-layers/typeorm/mysql.ts';

/** By chaos, too: nothing else shows that this harness convicts anything on MariaDB. */
const ALSO_CHAOS = {
  chaos: { store: 'mariadb', faults: ['relay-clock', 'relay-kill'] },
  every: true,
};

export const MARIADB = [
  {
    name: 'mariadb-key-freed-beside-another-transport',
    breaks: 'a dedup key is free though another transport still has the message parked',
    file: 'lib/store/mysql/ready/dedup-keys.ts',
    from: 'filter(([, id]) => !parked.has(id))',
    to: 'filter(([, id]) => parked.has(id) || true)',
  },
  {
    name: 'mariadb-replay-changes-the-key',
    breaks: 'a key of bytes that are no text is another one in what is replayed',
    file: 'lib/store/mysql/ready/insert.ts',
    from: 'row.key === null ? null : keyBytes(row.key),',
    to: "row.key === null ? null : Buffer.from(row.key, 'utf8'),",
    contract: 'test/nest/admin-replay.spec.ts',
  },
  {
    name: 'mariadb-waits-for-a-copy',
    breaks: 'whoever settles one copy of a message waits for who publishes the other under a lock',
    file: SETTLE,
    from: "const known = `${lookUp(jsonTable({ i: ID, p: 'bigint unsigned' }), `${parked} p`)} on p.parked_id = k.p`;",
    to: "const known = `${lookUp(jsonTable({ i: ID, p: 'bigint unsigned' }), `${parked} p`, 'by_id')} on p.id = k.i and (p.parked_id = k.p or p.attempts < 0)`;",
  },
  {
    name: 'mariadb-shows-one-of-two-copies',
    breaks: 'of scheduled copies of a message, which have no number yet, a look by id shows one',
    file: 'lib/store/inspect-store.ts',
    from: "(seq === '0' ? `0 ${state} ${rowId}` : seq)",
    to: "(seq === '0' && state === 'ready' ? `0 ${state} ${rowId}` : seq)",
  },
  {
    name: 'mariadb-no-fence-on-park',
    breaks: 'an instance whose lease was taken over still parks and buries',
    file: LEASES,
    from: 'l.owner = ? and l.epoch = k.e${more} ${shareOf',
    to: '(l.owner = ? or true)${more} ${shareOf',
  },
  {
    name: 'mariadb-told-of-a-former-death',
    breaks: 'who was told of one death is taken to know of the next',
    file: 'lib/store/mysql/parked/statements.ts',
    from: ' and p.died_at = k.d`',
    to: '`',
  },
  {
    name: 'mariadb-fence-is-a-comparison',
    breaks: 'the lease is looked at, not locked',
    file: LEASES,
    from: " ${shareOf('l')}`",
    to: '`',
    contract: TRANSACTIONS,
  },
  {
    name: 'mariadb-lease-taken-early',
    breaks: 'a lease is taken before it expired',
    file: LEASES,
    from: 'where transport = ? and expires_at <= ${NOW}',
    to: 'where transport = ? and expires_at <= ${NOW} + interval 1 hour',
    ...ALSO_CHAOS,
  },
  {
    name: 'mariadb-settle-by-place-only',
    breaks: 'a late success removes whatever stands in its place',
    file: SETTLE,
    from: 'where h.id = k.i`',
    to: 'where (h.id = k.i or true)`',
  },
  {
    name: 'mariadb-moved-without-lock',
    breaks: 'an owner and a zombie that move the same row each make a copy of it',
    file: SETTLE,
    from: "from ${there(PLACES)} ${updateOf('h')}`",
    to: 'from ${there(PLACES)}`',
    contract: 'test/contract/store-mariadb.spec.ts',
  },
  {
    name: 'mariadb-look-up-unforced',
    breaks: 'in small tables each statement waits for the open transactions of everybody else',
    file: 'lib/store/mysql/json-rows.ts',
    from: ' force index (${index})',
    to: '',
    contract: 'test/integration/mysql/locks.spec.ts',
    onMysql: false, // its optimizer looks them up by itself there
  },
  {
    name: 'mariadb-repeatable-read-claim',
    breaks: 'what the relay reads and locks stands still in its transactions, with gaps between rows locked, too',
    file: SESSION,
    from: 'isolation level read committed, read write',
    to: 'isolation level repeatable read, read write',
    contract: TRANSACTIONS,
  },
  {
    name: 'mariadb-read-committed-dropped',
    breaks: 'the relay’s sessions have the isolation that the server gives them',
    file: SESSION,
    from: "'set session transaction isolation level read committed, read write'",
    to: "'select 1'",
    contract: EXECUTOR,
  },
  {
    name: 'mariadb-rollback-on-the-dead',
    breaks: 'a rollback is queued on a connection that is about to be destroyed, and waits for ever',
    file: 'lib/data-layers/typeorm/mysql-connection.ts',
    from: 'if (client !== undefined) destroy(client);\n    abort?.(lost());',
    to: 'abort?.(lost());\n    await open?.catch(() => undefined);\n    if (client !== undefined) destroy(client);',
    chaos: false,
    contract: 'test/integration/mysql/executor.spec.ts',
  },
  {
    name: 'mariadb-lost-deadline',
    breaks: 'the deadline of a statement whose connection was lost ends the connection that comes after it',
    file: 'lib/data-layers/typeorm/mysql-connection.ts',
    from: 'ended(); // nothing else would',
    to: '// nothing else would',
    contract: EXECUTOR,
  },
  {
    name: 'mariadb-late-connection-kept',
    breaks: 'a connection that was given up while it opened is taken for the one in use',
    file: 'lib/data-layers/typeorm/mysql-connection.ts',
    from: 'if (this.open !== open) return discard(client);',
    to: '',
    contract: EXECUTOR,
  },
  {
    name: 'mariadb-clean-read-as-dirty',
    breaks: 'the probe sees no uncommitted insert, and the low-water mark rises past it',
    file: 'lib/store/mysql/ready/ready.ts',
    from: 'isolation level read uncommitted',
    to: 'isolation level read committed',
  },
  {
    name: 'mariadb-repark-of-a-former-life',
    breaks: 'a failure that is written again kills what an operator has requeued meanwhile',
    file: 'lib/store/mysql/parked/statements.ts',
    from: ' and p.attempts = k.sent',
    to: '',
  },
  {
    name: 'mariadb-scheduled-holds-nobody',
    breaks: 'a scheduled message that fell due holds nobody, and later ones overtake it',
    file: 'lib/store/mysql/parked/take.ts',
    from: '${WAITING}, p.blocking = 1, p.seq',
    to: '${WAITING}, p.seq',
  },
  {
    name: 'mariadb-taken-without-lock',
    breaks: 'what is cancelled at that moment is taken, and sent all the same',
    file: 'lib/store/mysql/parked/take.ts',
    from: "const free = `where p.transport = ? ${updateOf('p')} skip locked`;",
    to: 'const free = `where p.transport = ?`;',
    contract: 'test/integration/postgres/take-races.spec.ts',
  },
  {
    name: 'mariadb-archived-twice',
    breaks: 'a message that is named twice in one settle is archived twice',
    file: SETTLE,
    from: 'new Map(known.map((row) => [row.parkedId, row]))',
    to: 'new Map(known.map((row, n) => [n, row]))',
  },
  {
    name: 'mariadb-backoff-ended-by-an-operator',
    breaks: 'a message that waits for its next try is tried at once when one behind it is removed',
    file: 'lib/store/mysql/parked/wake.ts',
    from: 'return this.wakeIn([BLOCKED], tx, keys);',
    to: 'return this.wakeIn([WAITING, BLOCKED], tx, keys);',
  },
  {
    name: 'mariadb-dedup-key-of-somebody-else',
    breaks: 'cleaning removes a dedup key that was used again since it was looked at',
    file: 'lib/store/mysql/ready/dedup-keys.ts',
    from: ' and d.claim = unhex(k.c) ${updateOf',
    to: ' and k.c is not null ${updateOf',
    contract: 'test/integration/mysql/dedup.spec.ts',
  },
  {
    name: 'mariadb-successors-out-of-order',
    breaks: 'parked successors of a key are taken from its end',
    file: 'lib/store/mysql/parked/wake.ts',
    from: 'order by seq, parked_id limit ?',
    to: 'order by seq desc, parked_id limit ?',
    ...ALSO_CHAOS,
  },
  {
    name: 'mariadb-locks-held-while-publishing',
    breaks: 'the transaction that takes parked rows stays open while they are published',
    file: 'lib/store/mysql/parked/parked.ts',
    from: "inTransaction(this.database.connection('settle'), (tx) => this.taker.take(tx, request, this.reading))",
    to: `new Promise((got, failed) => inTransaction(this.database.connection('settle'), async (tx) => {
      got(await this.taker.take(tx, request, this.reading));
      await new Promise((over) => setTimeout(over, 100));
    }).catch(failed))`,
  },
  {
    name: 'mariadb-operators-wait-for-a-publish',
    breaks: 'with row locks a call of an operator waits for what is being published, and changes nothing',
    file: 'lib/store/mysql/ops/operators.ts',
    from: "=== 'rowLock' ? ' skip locked' : ''",
    to: "=== 'rowLock' ? '' : ''",
    contract: 'test/integration/database/foreign-locks.spec.ts',
  },
  {
    name: 'mariadb-tables-without-a-lock',
    breaks: 'several processes make or change the tables at once, and all but one end with an error',
    file: 'lib/store/mysql/schema/lock.ts',
    from: 'await take(ask, name, tables, wait);',
    to: 'void take;',
    contract: 'test/integration/schema/migrations-race.spec.ts',
  },
  {
    name: 'mariadb-lock-kept-in-the-pool',
    breaks: 'the lock of whoever makes tables goes back to the pool with its connection',
    file: 'lib/store/mysql/schema/lock.ts',
    from: "await ask('select release_lock(?)', [name]).catch(() => undefined);",
    to: '',
    contract: 'test/integration/mysql/migration-lock.spec.ts',
  },
].map((mutant) => ({ chaos: false, contract: STORE, ...mutant, breaks: `MariaDB: ${mutant.breaks}` }));
