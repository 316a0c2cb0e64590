/** Leases: one owner at a time, and former owners fenced off. */
export const LEASES = [
  {
    name: 'expired-lease-publishes',
    breaks: 'a publish starts although the lease may end before it does',
    file: 'lib/relay/leases/bucket-leases.ts',
    from: 'return held !== undefined && this.remaining(held) > need',
    to: 'return held !== undefined',
  },
  {
    name: 'lease-deadline-after-answer',
    breaks: 'the lease is reckoned from the answer, not from the question',
    file: 'lib/relay/leases/bucket-leases.ts',
    from: `if (leases.length === 0) return;
    const mine`,
    to: `if (leases.length === 0) return;
    const { clock } = this;
    const asked = clock.monotonic() + this.settings.lease;
    age = () => clock.monotonic() - asked;
    const mine`,
  },
  {
    name: 'old-verdict-new-lease',
    breaks: 'what was decided under an old lease is written under a new one',
    file: 'lib/relay/settle/settler.ts',
    from: 'epoch !== undefined && leases.get(message.bucket)?.epoch === epoch;',
    to: 'epoch !== undefined && leases.has(message.bucket);',
    contract: 'test/unit/relay/transport-relay.spec.ts',
  },
  {
    name: 'no-fence-on-park',
    breaks: 'PostgreSQL: an instance whose lease was taken over still parks and buries',
    file: 'lib/store/postgres/ready/statements.ts',
    from: 'and l.epoch = e.e and l.owner = ?${alive',
    to: 'and (l.owner = ? or true)${alive',
    contract: 'test/contract/store-postgres.spec.ts',
    chaos: false,
  },
  {
    chaos: false,
    contract: 'test/contract/store-mariadb.spec.ts',
    name: 'mariadb-no-fence-on-park',
    breaks: 'MariaDB: an instance whose lease was taken over still parks and buries',
    file: 'lib/store/mysql/ops/leases.ts',
    from: 'l.owner = ? and l.epoch = k.e${more} ${shareOf',
    to: '(l.owner = ? or true)${more} ${shareOf',
  },
  {
    name: 'epoch-stands-still',
    breaks: 'a takeover does not raise the epoch',
    file: 'lib/store/sql/leases.ts',
    from: 'epoch: String(BigInt(epoch) + 1n)',
    to: 'epoch',
    contract: 'test/contract/store-postgres.spec.ts',
    chaos: false,
  },
  {
    name: 'lease-taken-early',
    breaks: 'PostgreSQL: a lease is taken before it expired',
    file: 'lib/store/postgres/ops/leases.ts',
    from: 'and l.expires_at <= ${NOW} order by',
    to: "and l.expires_at <= ${NOW} + interval '1 hour' order by",
  },
  {
    chaos: { store: 'mariadb', faults: ['relay-clock', 'relay-kill'] },
    contract: 'test/contract/store-mariadb.spec.ts',
    name: 'mariadb-lease-taken-early',
    breaks: 'MariaDB: a lease is taken before it expired',
    file: 'lib/store/mysql/ops/leases.ts',
    from: 'where transport = ? and expires_at <= ${NOW}',
    to: 'where transport = ? and expires_at <= ${NOW} + interval 1 hour',
    every: true,
  },
  {
    name: 'kafka-fence-of-its-own',
    breaks: 'Kafka: the relay that takes a bucket over fences nobody, and a frozen one appends behind it',
    file: 'lib/transports/kafka/kafka.ts',
    from: '`${fencing.transactionalId}-${bucket}`',
    to: '`${fencing.transactionalId}-${bucket}-${randomUUID()}`',
    contract: 'test/processes/kafka-fencing.spec.ts',
    chaos: false,
  },
];
